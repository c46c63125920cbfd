"""`focusctx serve` reads its file again on SIGHUP: what changes, what stays, and what happens to a bad file."""

import asyncio
import json
import signal
import ssl
from pathlib import Path

import aiohttp
import pytest

from focusctx import Focus
from focusctx.proxy.settings import Settings
from focusctx.proxy.upstream import Upstream
from helpers.certificates import certificate_for
from helpers.histories import run
from helpers.raw_http import Head, Line, Whole, eventually, exchange, proxy, raw_upstream
from helpers.served import CHAT, Served, history, serve

pytestmark = pytest.mark.usefixtures("bounded")

ALICE = "a token of more than 16 characters"


def config(url: str, *, budget: int = 5000, more: str = "", top: str = "") -> str:
    return f"""
listen = "127.0.0.1:0"
store = "memory"
{top}
[upstreams.one]
url = "{url}"
[compress]
budget = {budget}
{more}
"""


def kept(got: Whole) -> int:
    return len(json.loads(got.body)["messages"])


async def reloaded(served: Served, said: str) -> None:
    before = len(served.said)
    served.process.send_signal(signal.SIGHUP)
    assert await eventually(lambda: any(said in line for line in served.said[before:]), 10), served.said


async def test_new_settings_hold_for_running_conversations(tmp_path: Path, nothing_left: None) -> None:
    file = tmp_path / "focusctx.toml"
    async with raw_upstream() as up, raw_upstream() as other:
        file.write_text(config(up.url))
        async with serve(tmp_path, "--config", str(file), ALICE=ALICE) as served:
            await exchange(served.url, "POST", CHAT, [], history(40))
            file.write_text(config(up.url, budget=60))
            await reloaded(served, "settings reloaded")
            await exchange(served.url, "POST", CHAT, [], history(41))
            file.write_text(config(other.url, budget=60, more='[callers.alice]\ntoken = "env:ALICE"'))
            await reloaded(served, "settings reloaded")
            assert (await exchange(served.url, "POST", CHAT, [], history(41))).status == 403
            shown = [("x-focusctx-token", ALICE)]
            assert (await exchange(served.url, "POST", CHAT, shown, history(41))).status == 200
            assert await served.end() == 0
            assert "Traceback" not in "\n".join(served.said)
    assert kept(up.got[0]) == len(run(40))
    assert kept(up.got[1]) < len(run(41))
    assert len(up.got) == 2
    assert len(other.got) == 1


async def test_a_bad_file_changes_nothing(tmp_path: Path, nothing_left: None) -> None:
    file = tmp_path / "focusctx.toml"
    async with raw_upstream() as up:
        file.write_text(config(up.url, budget=60))
        async with serve(tmp_path, "--config", str(file)) as served:
            for text, said in [
                ("budget = [", "focusctx.toml: "),
                (config(up.url, top="nonsense = 1"), "unknown nonsense"),
                (config(up.url, budget=-1), "budget must be 0 or more"),
                (config("ftp://x"), "upstream one: its URL must have the form"),
                (config(up.url, more='draft = "nonsense"'), "unknown draft 'nonsense'"),
                (config(up.url, more='[callers.alice]\ntoken = "env:NOBODY"'), "NOBODY is not set"),
            ]:
                file.write_text(text)
                await reloaded(served, "the settings were not reloaded, the old ones stay in use: ")
                assert said in served.said[-1]
            file.unlink()
            await reloaded(served, "No such file")
            assert (await exchange(served.url, "POST", CHAT, [], history(40))).status == 200
            assert await served.end() == 0
    assert kept(up.got[0]) < len(run(40))


async def test_what_needs_a_restart_is_said(tmp_path: Path, nothing_left: None) -> None:
    file = tmp_path / "focusctx.toml"
    async with raw_upstream() as up:
        file.write_text(config(up.url))
        async with serve(tmp_path, "--config", str(file)) as served:
            file.write_text(config(up.url, top="dry_run = true").replace("127.0.0.1:0", "127.0.0.1:1"))
            await reloaded(served, "settings reloaded; a restart is needed for port, dry_run")
            assert (await exchange(served.url, "GET", "/healthz")).status == 200
            assert await served.end() == 0


async def test_without_a_file_the_signal_ends_it(tmp_path: Path, nothing_left: None) -> None:
    """A terminal that closes sends it. Tests that run under nohup ignore it, and the process would inherit that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        async with raw_upstream() as up:
            options = ["--upstream", f"one={up.url}", "--listen", "0", "--store", "memory"]
            async with serve(tmp_path, *options) as served:
                assert await served.end(signal.SIGHUP) == -signal.SIGHUP
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_decisions_outlast_a_reload_and_so_does_a_request_that_is_being_looked_at(nothing_left: None) -> None:
    hold, asked = asyncio.Event(), asyncio.Event()

    async def slow(line: Line, head: Head) -> None:
        await line.body(head)
        asked.set()
        await hold.wait()
        said = json.dumps({"choices": [{"message": {"content": "Step: finish | Depends on: []"}}], "usage": {}})
        await line.send(f"HTTP/1.1 200 OK\r\ncontent-length: {len(said)}\r\n\r\n{said}".encode())

    async with raw_upstream() as up, raw_upstream(slow) as drafts:
        draft = f"openai:m@{drafts.url}/v1"
        async with proxy(up.url, focus=Focus(draft, budget=60)) as (served, url):
            request = asyncio.create_task(exchange(url, "POST", CHAT, [], history(40)))
            await asked.wait()
            (old,) = served.conversations
            served.reload(lambda: (Focus(draft, budget=61), served.settings))
            hold.set()
            assert (await request).status == 200
            assert served.focus.draft is old.session.focus.draft, "the draft was not made again"
            await exchange(url, "POST", CHAT, [], history(40))
            (new,) = served.conversations
            assert new.session is not old.session
            assert new.session.focus.config.budget == 61
    assert kept(up.got[0]) < len(run(40)), "the request that was under way was compressed"
    assert up.got[1].body == up.got[0].body, "and what was decided for it holds"


async def test_settings_that_do_not_touch_compression_leave_conversations_alone(nothing_left: None) -> None:
    async with raw_upstream() as up, proxy(up.url, focus=Focus("offline", budget=60)) as (served, url):
        await exchange(url, "POST", CHAT, [], history(40))
        (before,) = served.conversations
        new = Settings(served.settings.upstreams, port=0, store="memory", grace=0.2, log_text=True)
        served.reload(lambda: (Focus("offline", budget=60), new))
        assert served.settings.log_text
        assert list(served.conversations) == [before]


async def test_upstreams_with_the_same_name_are_refused_before_anything_changes(nothing_left: None) -> None:
    async with raw_upstream() as up, proxy(up.url, focus=Focus("offline", budget=60)) as (served, url):
        before = served.settings
        twice = (Upstream("a", up.url), Upstream("a", up.url))
        served.reload(lambda: (Focus("offline", budget=1), Settings(twice, port=0, store="memory")))
        assert served.settings is before
        assert served.focus.config.budget == 60
        assert (await exchange(url, "GET", "/v1/models")).status == 200


async def test_the_certificate_is_read_again(tmp_path: Path, nothing_left: None) -> None:
    shown, _ = certificate_for("IP:127.0.0.1", tmp_path)
    old = shown.read_text()
    tls = {"tls_cert": str(shown), "tls_key": str(tmp_path / "key.pem")}
    async with raw_upstream() as up, proxy(up.url, **tls) as (served, url):

        async def status(certificate: str) -> int:
            context = ssl.create_default_context(cadata=certificate)
            async with aiohttp.ClientSession() as http, http.get(f"{url}/healthz", ssl=context) as got:
                return got.status

        assert await status(old) == 200
        certificate_for("IP:127.0.0.1", tmp_path)
        served.reload(lambda: (served.focus, served.settings))
        assert await status(shown.read_text()) == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await status(old)
        good = shown.read_text()
        shown.write_text("broken")
        served.reload(lambda: (served.focus, served.settings))
        assert await status(good) == 200, "the one that works stays"
