"""WebSockets through the proxy: messages, subprotocols, pings, close codes and refusals reach the other end."""

import os
from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha1

import aiohttp
import pytest
from aiohttp import web

from helpers.raw_http import Head, Line, connect, eventually, exchange, proxy, raw_upstream, request

pytestmark = pytest.mark.usefixtures("nothing_left")

HANDSHAKE = [
    ("Connection", "keep-alive, Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
]
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


async def echo(request: web.Request) -> web.StreamResponse:
    """A WebSocket that says everything back, and does what it is told."""
    if "refuse" in request.query:
        return web.Response(status=426, reason="Not today", text="use SSE", headers={"x-why": "full"})
    ws = web.WebSocketResponse(protocols=("responses", "other"), autoping=False, max_msg_size=0, compress=True)
    ws.headers["x-codex-turn-state"] = "state 1"
    await ws.prepare(request)
    async for message in ws:
        if message.type is aiohttp.WSMsgType.PING:
            await ws.pong(message.data)
        elif message.type is aiohttp.WSMsgType.BINARY:
            await ws.send_bytes(message.data)
        elif message.data == "close":
            await ws.close(code=4001, message=b"as you wish")
        elif message.data == "vanish":
            assert request.transport is not None
            request.transport.abort()
        elif message.data == "ping me":
            await ws.ping(b"?")
        else:
            await ws.send_str(f"{message.data} {request.headers.get('authorization', '')}")
    closed.append(ws.close_code)
    return ws


closed: list[int | None] = []


@pytest.fixture
async def sockets() -> AsyncIterator[str]:
    """The address of a provider of WebSockets."""
    closed.clear()
    app = web.Application()
    app.router.add_get("/v1/responses", echo)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.mark.parametrize("compress", [0, 15])
async def test_a_websocket_in_both_directions(sockets: str, compress: int) -> None:
    headers = {"authorization": "Bearer k"}
    async with proxy(sockets) as (_, url), aiohttp.ClientSession() as http:
        async with http.ws_connect(
            f"{url}/v1/responses?x=1",
            protocols=["responses"],
            headers=headers,
            autoping=False,
            compress=compress,
            max_msg_size=0,
        ) as ws:
            assert ws.protocol == "responses"
            assert ws._response.headers["x-codex-turn-state"] == "state 1"
            assert bool(ws.compress) is bool(compress), "what the two ends agreed on, they agreed on"
            for text in ("hello", "", "é" * 100_000):
                await ws.send_str(text)
                assert (await ws.receive()).data == f"{text} Bearer k"
            blob = os.urandom(5_000_000)
            await ws.send_bytes(blob)
            assert (await ws.receive()).data == blob
            await ws.ping(b"!")
            pong = await ws.receive()
            assert (pong.type, pong.data) == (aiohttp.WSMsgType.PONG, b"!")
            await ws.send_str("ping me")
            ping = await ws.receive()
            assert (ping.type, ping.data) == (aiohttp.WSMsgType.PING, b"?")
            await ws.close(code=4002)
        assert await eventually(lambda: closed == [4002])


async def test_a_websocket_that_the_provider_closes(sockets: str) -> None:
    async with proxy(sockets) as (_, url), aiohttp.ClientSession() as http:
        async with http.ws_connect(f"{url}/v1/responses", autoclose=False) as ws:
            await ws.send_str("close")
            message = await ws.receive()
            assert (message.type, message.data, message.extra) == (aiohttp.WSMsgType.CLOSE, 4001, "as you wish")
        async with http.ws_connect(f"{url}/v1/responses") as ws:
            await ws.send_str("vanish")
            assert (await ws.receive(timeout=2)).type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
            assert ws.close_code == 1006


async def test_a_websocket_whose_agent_vanishes(sockets: str) -> None:
    async with proxy(sockets) as (_, url), aiohttp.ClientSession() as http:
        ws = await http.ws_connect(f"{url}/v1/responses")
        await ws.send_str("hello")
        await ws.receive()
        ws._response.connection.transport.abort()  # type: ignore[union-attr]
        assert await eventually(lambda: closed == [1006], 1.0)
        await ws.close()


async def test_a_refused_websocket_is_refused_in_the_provider_s_words(sockets: str) -> None:
    async with proxy(sockets) as (_, url), await connect(url) as line:
        await line.send(request("GET", "/v1/responses?refuse", HANDSHAKE))
        got = await line.whole()
        assert got.first == "HTTP/1.1 426 Not today"
        assert (got["x-why"], got.body) == ("full", b"use SSE")
        await line.send(request("GET", "/v1/responses?refuse", HANDSHAKE))
        assert (await line.whole()).status == 426, "and the connection goes on"


async def test_websockets_can_be_refused_here(sockets: str) -> None:
    async with proxy(sockets, refuse_websockets=True) as (_, url):
        got = await exchange(url, "GET", "/v1/responses", HANDSHAKE)
    assert got.status == 426
    assert got["x-focusctx-error"] == "1"


async def test_frames_in_one_packet_with_the_handshake_are_passed_on() -> None:
    async def answer(line: Line, head: Head) -> bool:
        accept = b64encode(sha1(head["sec-websocket-key"].encode() + GUID).digest()).decode()
        switch = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        await line.send(f"{switch}sec-websocket-accept: {accept}\r\n\r\n".encode() + b"\x81\x07welcome")
        opcode, length, *mask = await line.reader.readexactly(6)
        masked = await line.reader.readexactly(5)
        assert (opcode, length) == (0x81, 0x85)
        assert bytes(byte ^ mask[place % 4] for place, byte in enumerate(masked)) == b"hello"
        await line.send(b"\x82\x03bye\x88\x02\x0f\xa1")
        await line.ended()
        return True

    head = request("GET", "/v1/responses", HANDSHAKE)
    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(head + b"\x81\x85\0\0\0\0hello")
        assert (await line.head()).first == "HTTP/1.1 101 Switching Protocols"
        assert await line.reader.readexactly(9 + 5 + 4) == b"\x81\x07welcome\x82\x03bye\x88\x02\x0f\xa1"
        await line.send(b"\x88\x82\0\0\0\0\x0f\xa1")
        assert await line.ended() == b""
    assert up.broken == []


@pytest.mark.parametrize("first", ["307 Temporary Redirect", "200 OK", "500 Internal Server Error"])
async def test_any_other_answer_is_passed_on_as_it_is(first: str) -> None:
    answer = f"HTTP/1.1 {first}\r\nlocation: /elsewhere\r\ncontent-length: 2\r\n\r\nno".encode()
    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        got = await exchange(url, "GET", "/v1/responses", HANDSHAKE)
        assert (got.first, got.body, got["location"]) == (f"HTTP/1.1 {first}", b"no", "/elsewhere")
        assert len(up.got) == 1, "the redirect was not followed"


async def test_a_handshake_that_makes_no_sense_is_an_error_of_the_provider() -> None:
    switch = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    async with raw_upstream(switch + b"sec-websocket-accept: no\r\n\r\n") as up, proxy(up.url) as (_, url):
        got = await exchange(url, "GET", "/v1/responses", HANDSHAKE)
    assert got.status == 502
    assert b"invalid WebSocket handshake" in got.body


async def test_a_handshake_without_a_key_goes_nowhere() -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        assert (await exchange(url, "GET", "/v1/responses", HANDSHAKE[:2])).status == 400
    assert not up.got


async def test_upgrade_without_connection_is_an_ordinary_request() -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        assert (await exchange(url, "GET", "/v1/responses", HANDSHAKE[1:])).status == 200
    assert "upgrade" not in up.got[0]
    assert "connection" not in up.got[0]
