"""Tokens and what they open: callers are not admins, and cookies and pages are neither."""

import asyncio
import json
import os
import stat
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest

from focusctx.errors import ConfigError
from focusctx.proxy.access import Guesses
from focusctx.proxy.settings import Settings
from focusctx.proxy.upstream import Upstream
from focusctx.session.stores import store_from
from helpers.raw_http import Headers, Whole, connect, exchange, proxy, raw_upstream, request
from helpers.served import serve

CALLER = "a token for callers, long enough"
ADMIN = "a token for admins, long enough"
BEHIND = ["/ui/api/sessions", "/ui/api/live", "/ui/page.js", "/metrics"]


def shows(token: str) -> list[Headers]:
    return [[("x-focusctx-token", token)], [("authorization", f"Bearer {token}")], [("x-api-key", token)]]


async def log_in(url: str, token: str, origin: str | None = None) -> Whole:
    """Send the form, as from a page of that origin, under the name of `proxy.example` where one is given."""
    body = urlencode({"token": token})
    sent = request("POST", "/ui/login", [("content-type", "application/x-www-form-urlencoded")], body.encode())
    if origin:
        sent = sent.replace(b"Host: 127.0.0.1", f"Host: proxy.example\r\nOrigin: {origin}".encode())
    async with await connect(url) as line:
        await line.send(sent)
        return await line.whole()


# Two roles


@pytest.mark.parametrize("path", BEHIND)
async def test_a_caller_s_token_does_not_open_the_dashboard(path: str) -> None:
    async with raw_upstream() as up, proxy(up.url, token=CALLER, admin_token=ADMIN) as (_, url):
        for headers in shows(CALLER):
            assert (await exchange(url, "GET", path, headers)).status == 403
        assert (await log_in(url, CALLER)).status == 403


async def test_an_admin_s_token_does_not_forward_requests() -> None:
    async with raw_upstream() as up:
        held = Upstream("one", up.url, "sk-held")
        async with proxy(held, token=CALLER, admin_token=ADMIN) as (_, url):
            for headers in shows(ADMIN):
                assert (await exchange(url, "GET", "/v1/models", headers)).status == 403
                assert (await exchange(url, "GET", "/metrics", headers)).status == 200
        assert up.connections == 0


@pytest.mark.parametrize("path", [*BEHIND, "/ui"])
async def test_without_an_admin_token_the_dashboard_is_closed_to_callers(path: str) -> None:
    async with raw_upstream() as up, proxy(up.url, token=CALLER) as (_, url):
        for headers in ([], *shows(CALLER), [("cookie", f"focusctx_login={CALLER}")]):
            got = await exchange(url, "GET", path, headers)
            assert got.status == 403
            assert b"FOCUSCTX_ADMIN_TOKEN" in got.body, "it says how to open it"
            assert b"<form" not in got.body
        assert (await log_in(url, CALLER)).status == 403


async def test_the_start_says_that_the_dashboard_is_closed(tmp_path: Path) -> None:
    options = ("--upstream", "local=http://127.0.0.1:1/v1", "--listen", "127.0.0.1:0", "--store", "memory")
    async with serve(tmp_path, *options, FOCUSCTX_TOKEN=CALLER) as served:
        assert "dashboard: closed, set FOCUSCTX_ADMIN_TOKEN to open it" in "\n".join(served.said)
    async with serve(tmp_path, *options, FOCUSCTX_TOKEN=CALLER, FOCUSCTX_ADMIN_TOKEN=ADMIN) as served:
        assert f"dashboard: {served.url}/ui" in "\n".join(served.said)
        headers = [("x-focusctx-token", ADMIN)]
        assert (await exchange(served.url, "GET", "/ui/api/sessions", headers)).status == 200


@pytest.mark.parametrize("wrong", [{"admin_token": "short"}, {"token": CALLER, "admin_token": CALLER}])
def test_an_admin_token_is_long_and_another_one(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="the admin token is"):
        Settings((Upstream("a", "http://127.0.0.1:1"),), **wrong)


# Logins


async def test_the_cookie_is_not_the_token() -> None:
    async with raw_upstream() as up, proxy(up.url, admin_token=ADMIN) as (_, url):
        cookies = [(await log_in(url, ADMIN))["set-cookie"] for _ in range(2)]
        assert all("HttpOnly" in cookie and "SameSite=Strict" in cookie for cookie in cookies)
        first, second = [cookie.partition(";")[0] for cookie in cookies]
        assert first != second
        assert ADMIN not in first
        assert (await exchange(url, "GET", "/ui/api/sessions", [("cookie", first)])).status == 200
        await exchange(url, "POST", "/ui/logout", [("cookie", first)], b"")
        assert (await exchange(url, "GET", "/ui/api/sessions", [("cookie", first)])).status == 403
        assert (await exchange(url, "GET", "/ui/api/sessions", [("cookie", second)])).status == 200
        for forged in (f"focusctx_login={ADMIN}", "focusctx_login=", f"focusctx_token={ADMIN}"):
            assert (await exchange(url, "GET", "/ui/api/sessions", [("cookie", forged)])).status == 403


async def test_a_browser_on_another_machine_can_log_in() -> None:
    """It names the proxy by a name that is not loopback, and says so as the form's origin."""
    async with raw_upstream() as up, proxy(up.url, token=CALLER, admin_token=ADMIN) as (_, url):
        assert (await log_in(url, ADMIN, "http://proxy.example")).status == 303
        assert (await log_in(url, ADMIN, "http://evil.example")).status == 403


# Guesses


async def test_wrong_tokens_are_slowed_down_and_right_ones_are_not() -> None:
    async with raw_upstream() as up, proxy(up.url, token=CALLER, admin_token=ADMIN) as (_, url):

        async def guess(number: int) -> int:
            headers = [("x-focusctx-token", f"a wrong token, number {number}")]
            return (await exchange(url, "GET", "/v1/models" if number % 2 else "/metrics", headers)).status

        began = time.monotonic()
        assert [await guess(number) for number in range(6)] == [403] * 6
        assert time.monotonic() - began > 1.5
        flood = [asyncio.create_task(guess(number)) for number in range(60)]
        await asyncio.sleep(0.3)
        began = time.monotonic()
        assert (await exchange(url, "GET", "/v1/models", [("x-focusctx-token", CALLER)])).status == 200
        assert (await exchange(url, "GET", "/metrics", [("x-focusctx-token", ADMIN)])).status == 200
        assert (await log_in(url, ADMIN)).status == 303
        assert time.monotonic() - began < 1
        done, waiting = await asyncio.wait(flood, timeout=0.5)
        assert {task.result() for task in done} == {429}
        assert len(waiting) == 8, "the others need not wait: they hold no connection"
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_requests_without_a_token_are_no_guesses() -> None:
    async with raw_upstream() as up, proxy(up.url, token=CALLER) as (_, url):
        began = time.monotonic()
        for _ in range(20):
            got = await exchange(url, "GET", "/v1/models", [("authorization", "Bearer sk-of-the-provider")])
            assert got.status == 403
        assert time.monotonic() - began < 2


async def test_guesses_from_everywhere_take_little_memory() -> None:
    now = 0.0
    guesses = Guesses(lambda: now)
    for number in range(5000):
        assert await guesses.wait(f"10.0.{number // 256}.{number % 256}")
    for number in range(3):
        assert await guesses.wait(f"2001:db8::{number:x}")
    assert len(guesses._addresses) == 1000
    assert guesses._addresses["2001:db8::/64"].wrong == 3, "one attacker has many IPv6 addresses"
    now = 601.0
    assert await guesses.wait("2001:db8::1")
    assert guesses._addresses["2001:db8::/64"].wrong == 1


# Hosts and pages


@pytest.mark.parametrize(
    "host",
    ["[::1].evil.example", "[::1]evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "[::1", "::1",
     "127.0.0.1:80:evil.example", "localhost@evil.example", "", "[127.0.0.1].evil.example"],
)  # fmt: skip
async def test_hosts_that_look_like_loopback_are_not(host: str) -> None:
    async with raw_upstream() as up, proxy(Upstream("one", up.url, "sk-held")) as (_, url):
        assert (await _named(url, "/metrics", host)).status in (400, 403)
        assert (await _named(url, "/v1/models", host)).status in (400, 403)
    assert up.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8400", "[::1]", "[::1]:8400", "localhost:1", "LocalHost"])
async def test_loopback_by_all_its_names(host: str) -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        assert (await _named(url, "/metrics", host)).status == 200


async def _named(url: str, path: str, host: str) -> Whole:
    async with await connect(url) as line:
        await line.send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return await line.whole()


@pytest.mark.parametrize(
    "kind",
    ["text/html", "TEXT/HTML; charset=utf-8", "application/xhtml+xml", "image/svg+xml", "text/xml", "", "nonsense",
     "application/json, text/html", "application/json; x=,text/html", "multipart/x-mixed-replace; boundary=x"],
)  # fmt: skip
async def test_forwarded_pages_are_sandboxed(kind: str) -> None:
    own = b"content-security-policy: default-src *\r\n"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n".encode() if kind else b"HTTP/1.1 200 OK\r\n"
    async with raw_upstream(head + own + b"content-length: 4\r\n\r\n<p>x") as up, proxy(up.url) as (_, url):
        got = await exchange(url, "GET", "/v1/page")
    assert got.body == b"<p>x"
    assert got.all("content-security-policy") == ["default-src *", "sandbox"], "of several policies all hold"


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "text/event-stream"])
async def test_what_agents_get_is_left_alone(kind: str) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: 2\r\n\r\n{{}}".encode()
    async with raw_upstream(head) as up, proxy(up.url) as (_, url):
        assert "content-security-policy" not in await exchange(url, "GET", "/v1/models")


async def test_the_root_leads_to_the_dashboard() -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        got = await exchange(url, "GET", "/")
        assert (got.status, got["location"]) == (302, "/ui")
        assert (await exchange(url, "POST", "/", [], b"{}")).status == 200
    assert [each.first for each in up.got] == ["POST / HTTP/1.1"]


# Files


def test_a_store_s_files_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        store = store_from(f"sqlite:///{tmp_path}/focus.db")
        store.restore("tenant", "root", "key")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(["focus.db", "focus.db-wal", "focus.db-shm"], 0o600)


def test_a_store_s_file_that_was_there_keeps_its_permissions(tmp_path: Path) -> None:
    file = tmp_path / "focus.db"
    file.touch(0o640)
    file.chmod(0o640)
    store = store_from(f"sqlite:///{file}")
    store.restore("tenant", "root", "key")
    store.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


async def test_readyz_tells_callers_nothing_of_the_store() -> None:
    settings = {"token": CALLER, "admin_token": ADMIN, "store": "redis://127.0.0.1:1/0"}
    async with raw_upstream() as up, proxy(up.url, **settings) as (_, url):
        got = await exchange(url, "GET", "/readyz", [("x-focusctx-token", CALLER)])
        assert json.loads(got.body)["store"] == "in trouble"
