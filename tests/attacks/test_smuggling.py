"""Request smuggling: bytes of one caller's request must never be read as part of another's."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.nginx import Nginx, nginx
from focusctx.proxy import client
from helpers.raw_http import OK, Head, Headers, Line, connect, eventually, exchange, proxy, raw_upstream, request

pytestmark = pytest.mark.usefixtures("bounded")

UPGRADE = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
HANDSHAKE = [*UPGRADE, ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]
VICTIM = b'{"model": "m", "messages": [{"role": "user", "content": "the password is swordfish"}]}'
AUTHORIZATION = [("Authorization", "Bearer sk-victim")]
ATTACKS: dict[str, Headers] = {
    "handshake with a length": [*HANDSHAKE, ("Content-Length", "300")],
    "handshake without a key": [*UPGRADE, ("Content-Length", "300")],
    "no Connection: Upgrade": [("Upgrade", "websocket"), ("Content-Length", "300")],
    "length named in Connection": [*HANDSHAKE, ("Connection", "Content-Length"), ("Content-Length", "300")],
    "chunked": [*HANDSHAKE, ("Transfer-Encoding", "chunked")],
    "another upgrade": [("Connection", "Upgrade"), ("Upgrade", "h2c"), ("Content-Length", "300")],
}


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Nginx]:
    """A provider behind nginx, which refuses WebSockets at once and answers all else with the caller's key."""
    locations = """
    location /v1/responses { return 404 "no such page"; }
    location / { return 200 "$request_method $uri $http_authorization"; }
    """
    with nginx(tmp_path, locations) as running:
        yield running


@pytest.mark.parametrize("headers", ATTACKS.values(), ids=ATTACKS.keys())
async def test_an_upgrade_with_a_body_does_not_swallow_the_next_request(provider: Nginx, headers: Headers) -> None:
    async with proxy(provider.url) as (_, url):
        for _ in range(3):
            async with await connect(url) as attacker:
                await attacker.send(request("GET", "/v1/responses", headers))
                await asyncio.sleep(0.1)
                got = await asyncio.wait_for(exchange(url, "POST", "/v1/embeddings", AUTHORIZATION, VICTIM), 3)
                assert got.status == 200
                assert got.body == b"POST /v1/embeddings Bearer sk-victim"

    def victims() -> list[list[str]]:
        return [line for line in provider.seen() if "sk-victim" in line[1]]

    assert await eventually(lambda: len(victims()) == 3), "nginx writes its log after the answer"
    assert victims() == [["POST /v1/embeddings HTTP/1.1", "Bearer sk-victim", "200"]] * 3


@pytest.mark.parametrize("headers", ATTACKS.values(), ids=ATTACKS.keys())
async def test_a_length_goes_up_only_with_a_body_of_that_length(headers: Headers) -> None:
    """The provider reads exactly the bytes of the request, whatever the caller's headers say."""
    seen: list[bytes] = []

    async def answer(line: Line, head: Head) -> None:
        seen.append(await line.body(head))
        await line.send(OK)

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as attacker:
        await attacker.send(request("GET", "/v1/responses", headers))
        await asyncio.sleep(0.05)
        assert (await exchange(url, "POST", "/v1/embeddings", AUTHORIZATION, VICTIM)).status == 200
    assert seen == [VICTIM]


@pytest.mark.parametrize(
    "lengths",
    [
        [("Content-Length", "3"), ("Content-Length", "30")],
        [("Content-Length", "3"), ("Transfer-Encoding", "chunked")],
        [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "identity")],
        [("Transfer-Encoding", "xchunked")],
        [("Content-Length", "+3")],
        [("Content-Length", "3 ")],
    ],
    ids=str,
)
async def test_a_request_whose_end_is_unclear_goes_nowhere_else(lengths: Headers) -> None:
    """The bytes behind it are refused or are a request of their own, never sent under another caller's name."""
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    async with raw_upstream() as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(request("POST", "/v1/embeddings", lengths) + b"{}\n" + smuggled)
        await asyncio.sleep(0.1)
        assert (await exchange(url, "POST", "/v1/embeddings", AUTHORIZATION, VICTIM)).status == 200
    assert up.got[-1].body == VICTIM
    assert all("sk-victim" not in got["authorization"] or got.target == "/v1/embeddings" for got in up.got)
    assert all(b"smuggled" not in got.body for got in up.got)


@pytest.mark.parametrize("pause", [0.0, 0.05])
async def test_an_answer_that_nobody_asked_for_reaches_no_other_caller(pause: float) -> None:
    """The provider, or whoever got between, sends a second answer on a connection that is kept for the next request."""
    poison = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison"

    async def answer(line: Line, head: Head) -> None:
        await line.body(head)
        await line.send(OK)
        if head["authorization"] == "Bearer sk-attacker":
            await asyncio.sleep(pause)
            await line.send(poison)

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        for _ in range(3):
            attacker = [("Authorization", "Bearer sk-attacker")]
            await exchange(url, "POST", "/v1/embeddings", attacker, b"{}")
            await asyncio.sleep(0.1)
            for _ in range(3):
                assert (await exchange(url, "POST", "/v1/embeddings", AUTHORIZATION, VICTIM)).body == b"{}"


async def test_callers_share_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the connections of callers who have left are closed."""
    monkeypatch.setattr(client, "_KEEP_IDLE", 0.5)
    async with raw_upstream() as up, proxy(up.url) as (served, url):
        for number in range(10):
            for _ in range(3):
                key = [("x-api-key", f"sk-{number}")]
                assert (await exchange(url, "POST", "/v1/messages", key, b"{}")).status == 200
        assert up.connections == 10
        assert await eventually(lambda: up.open == 0, 6)
        await exchange(url, "POST", "/v1/messages", [("x-api-key", "sk-new")], b"{}")
        assert len(served._client._pools) == 1
