"""Forwarding that nobody notices: bytes, headers, status and time, in both directions."""

import asyncio
import gzip
import os
import socket
import struct
from collections.abc import Iterator

import aiohttp
import pytest
from aiohttp import web

from focusctx.proxy import asking
from raw_http import (
    OK,
    STREAM,
    Head,
    Line,
    connect,
    eventually,
    exchange,
    proxy,
    raw_upstream,
    request,
)

pytestmark = pytest.mark.usefixtures("nothing_left")

OWN = {"date", "server", "connection", "transfer-encoding", "content-length"}
"""Headers that each of the two connections has for itself."""


async def test_a_stream_comes_chunk_by_chunk() -> None:
    """The provider sends the next chunk only after the agent has the last one: a buffer anywhere would hang here."""
    arrived = asyncio.Queue[bytes]()
    events = [f"data: {number}\n\n".encode() * (1 + number % 3) for number in range(20)]

    async def answer(line: Line, head: Head) -> None:
        await line.body(head)
        await line.send(STREAM)
        assert await asyncio.wait_for(arrived.get(), 5) == b"head"
        for event in events:
            await line.chunk(event)
            assert await asyncio.wait_for(arrived.get(), 5) == event
        await line.send(b"0\r\n\r\n")

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(request("POST", "/v1/chat/completions", [], b'{"messages": [], "stream": true}'))
        head = await line.head()
        assert head["content-type"] == "text/event-stream"
        arrived.put_nowait(b"head")
        while chunk := await line.read_chunk():
            arrived.put_nowait(chunk)
    assert up.broken == []


async def test_a_slow_answer_of_known_length_comes_as_it_comes() -> None:
    """Whoever waits for each byte for a while only must get each byte when it is there."""
    arrived = asyncio.Queue[bytes]()

    async def answer(line: Line, head: Head) -> None:
        await line.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n")
        for byte in (b"a", b"b", b"c", b"d"):
            await line.send(byte)
            assert await asyncio.wait_for(arrived.get(), 5) == byte

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(request())
        assert (await line.head())["content-length"] == "4"
        for _ in range(4):
            arrived.put_nowait(await line.reader.readexactly(1))
    assert up.broken == []


async def test_an_upload_goes_up_as_it_comes() -> None:
    arrived = asyncio.Queue[bytes]()

    async def answer(line: Line, head: Head) -> None:
        while chunk := await line.read_chunk():
            arrived.put_nowait(chunk)
        await line.send(OK)

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(request("POST", "/v1/audio", [("Transfer-Encoding", "chunked")]))
        for word in (b"one", b"two", b"three"):
            await line.chunk(word)
            assert await asyncio.wait_for(arrived.get(), 5) == word
        await line.send(b"0\r\n\r\n")
        assert (await line.whole()).status == 200


UP = [
    ("authorization", "Bearer sk-one"),
    ("x-api-key", "sk-ant-two"),
    ("anthropic-version", "2023-06-01"),
    ("anthropic-beta", "a-2025-01-01,b-2026-01-01"),
    ("x-claude-code-session-id", "0f0e"),
    ("openai-organization", "org"),
    ("accept", "application/json"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("user-agent", "agent/1.0"),
    ("content-type", "application/json"),
    ("cookie", "a=1; b=2"),
    ("x-twice", "1"),
    ("x-twice", "2"),
    ("x-empty", ""),
    ("x-latin", "café"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
]
HOPS = [
    ("connection", "keep-alive, x-named"),
    ("connection", "X-Also"),
    ("x-named", "1"),
    ("x-also", "1"),
    ("keep-alive", "timeout=5"),
    ("te", "trailers"),
    ("proxy-authorization", "Basic eA=="),
    ("proxy-connection", "keep-alive"),
]


async def test_headers_on_the_way_up() -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        ours = [("x-focusctx-session", "run 7"), ("x-focusctx-token", "t"), ("expect", "100-continue")]
        async with await connect(url) as line:
            await line.send(request("POST", "/v1/embeddings", [*UP, *HOPS, *ours], b"{}"))
            assert (await line.head()).first == "HTTP/1.1 100 Continue"
            assert (await line.whole()).status == 200
    (got,) = up.got
    assert got["x-latin"].encode("latin-1").decode() == "café", "in UTF-8, whatever it came in"
    left = [(name.lower(), value) for name, value in got.headers if name.lower() not in ("host", "content-length")]
    assert sorted(left) == sorted((name, value) if name != "x-latin" else (name, got[name]) for name, value in UP)


async def test_nothing_is_added_to_a_bare_request() -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        await exchange(url)
    assert [name.lower() for name, _ in up.got[0].headers] == ["host"]


DOWN = [
    ("content-type", "application/json; charset=utf-8"),
    ("x-request-id", "req_1"),
    ("request-id", "req_2"),
    ("x-ratelimit-remaining-requests", "9999"),
    ("x-ratelimit-reset-tokens", "6ms"),
    ("anthropic-ratelimit-tokens-remaining", "77"),
    ("retry-after", "3"),
    ("retry-after-ms", "3000"),
    ("x-should-retry", "false"),
    ("set-cookie", "a=1; Path=/"),
    ("set-cookie", "b=2; HttpOnly"),
    ("location", "/v1/elsewhere"),
    ("etag", '"x"'),
    ("cache-control", "no-store"),
    ("date", "Sun, 01 Nov 2026 10:00:00 GMT"),
    ("server", "provider"),
]


@pytest.mark.parametrize("streamed", [False, True])
async def test_headers_on_the_way_down(streamed: bool) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in [*DOWN, *HOPS, ("access-control-allow-origin", "*")])
    framing = "transfer-encoding: chunked\r\n\r\n" if streamed else "content-length: 2\r\n\r\nhi"

    async def answer(line: Line, head: Head) -> None:
        await line.send(f"HTTP/1.1 200 OK\r\n{lines}{framing}".encode())
        if streamed:
            await asyncio.sleep(0.05)
            await line.send(b"2\r\nhi\r\n0\r\n\r\n")

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        got = await exchange(url)
    assert got.body == b"hi"
    framing_headers = ("content-length", "transfer-encoding")
    left = [(name.lower(), value) for name, value in got.headers if name.lower() not in framing_headers]
    assert sorted(left) == sorted(DOWN)


@pytest.mark.parametrize(
    "first",
    [
        "200 OK",
        "201 Created",
        "400 Bad Request",
        "401 Nice try",
        "404 Not Found",
        "429 Too Many Requests",
        "500 Internal Server Error",
        "503 slow down, please",
        "529 Site is overloaded",
        "599 ",
        "307 Temporary Redirect",
    ],
)
async def test_status_reason_and_body_byte_for_byte(first: str) -> None:
    body = os.urandom(2000)
    head = f"HTTP/1.1 {first}\r\nlocation: /x\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n\r\n"
    async with raw_upstream(head.encode() + body) as up, proxy(up.url) as (_, url):
        got = await exchange(url, "POST", "/v1/chat/completions", [], b'{"messages": []}')
    assert got.first == f"HTTP/1.1 {first}"
    assert got.body == body
    assert len(up.got) == 1, "neither a redirect followed nor a failure tried again"


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_answers_without_a_body(status: str) -> None:
    answer = f'HTTP/1.1 {status}\r\netag: "x"\r\n\r\n'.encode()
    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as line:
        for _ in range(2):
            await line.send(request())
            head = await line.head()
            assert head.first == f"HTTP/1.1 {status}"
            assert head["etag"] == '"x"'
            assert "content-length" not in head
            assert "transfer-encoding" not in head
        assert up.connections == 1


async def test_head_tells_the_length_of_what_it_does_not_send() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1234\r\netag: x\r\n\r\n"
    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as line:
        for _ in range(2):
            await line.send(request("HEAD", "/"))
            head = await line.head()
            assert head["content-length"] == "1234"
            assert head["etag"] == "x"
        assert up.connections == 1


async def test_early_hints_do_not_take_the_place_of_the_answer() -> None:
    async with raw_upstream(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK) as up, proxy(up.url) as (_, url):
        assert (await exchange(url)).status == 200


@pytest.mark.parametrize("streamed", [False, True])
async def test_compressed_answers_stay_as_they_are(streamed: bool) -> None:
    packed = gzip.compress(b'{"a": 1}' * 1000)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n"
    framed = b"content-length: %d\r\n\r\n%s" % (len(packed), packed)
    if streamed:
        framed = b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed)
    async with raw_upstream(head + framed) as up, proxy(up.url) as (_, url):
        got = await exchange(url)
    assert got["content-encoding"] == "gzip"
    assert got.body == packed


async def test_an_answer_that_ends_with_the_connection() -> None:
    async def answer(line: Line, head: Head) -> bool:
        await line.send(b"HTTP/1.1 200 OK\r\n\r\nuntil ")
        await asyncio.sleep(0.02)
        await line.send(b"the end")
        return True

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        assert (await exchange(url)).body == b"until the end"


@pytest.mark.parametrize("breaks", [False, True])
async def test_the_oldest_of_clients_can_tell_an_end_from_a_break(breaks: bool) -> None:
    """HTTP/1.0 knows no chunks; some balancers still speak it."""

    async def answer(line: Line, head: Head) -> bool:
        await line.send(STREAM)
        await line.chunk(b"data: 1\n\n")
        await asyncio.sleep(0.05)
        if not breaks:
            await line.send(b"0\r\n\r\n")
        return True

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(b"GET / HTTP/1.0\r\n\r\n")
        head = await line.head()
        assert "transfer-encoding" not in head
        assert await line.reader.readexactly(9) == b"data: 1\n\n"
        if breaks:
            with pytest.raises(ConnectionResetError):
                await line.reader.read()
        else:
            assert await line.reader.read() == b""


async def test_connections_are_kept_on_both_sides() -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url), await connect(url) as line:
        for number in range(10):
            await line.send(request("POST", f"/v1/{number}", [], b"{}"))
            assert (await line.whole()).status == 200
        assert up.connections == 1
        assert len(up.got) == 10


async def test_requests_in_a_row_are_answered_in_a_row() -> None:
    async def answer(line: Line, head: Head) -> None:
        name = head.target.encode()
        await asyncio.sleep(0.05 if name == b"/1" else 0)
        await line.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(name), name))

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(b"".join(request("GET", f"/{number}") for number in (1, 2, 3)))
        assert [(await line.whole()).body for _ in range(3)] == [b"/1", b"/2", b"/3"]


class Stale:
    """Takes one request per connection, then closes the idle connection: politely, or with a reset, or only when the
    next request comes on it."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.served = 0

    async def __call__(self, line: Line, head: Head) -> bool:
        await line.body(head)
        self.served += 1
        await line.send(OK)
        if self.how == "next request":
            await line.reader.read(1)
        if self.how == "end":
            return True
        linger = line.writer.get_extra_info("socket")
        linger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        line.reset()
        return True


@pytest.mark.parametrize("how", ["end", "reset", "next request"])
@pytest.mark.parametrize("pause", [0.0, 0.05])
@pytest.mark.parametrize("size", [2, 200_000, 3_000_000])
async def test_a_connection_closed_while_idle_costs_no_request(how: str, pause: float, size: int) -> None:
    answer = Stale(how)
    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        for _ in range(8):
            got = await exchange(url, "POST", "/v1/embeddings", [], b"x" * size)
            assert got.status == 200
            await asyncio.sleep(pause)
    assert answer.served == 8


async def test_many_stale_connections_at_once() -> None:
    """The provider restarted: every connection in the pool is dead, and none of them may cost a request."""
    answer = Stale("next request")
    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        for _ in range(3):
            answers = await asyncio.gather(*(exchange(url, "POST", "/x", [], b"{}") for _ in range(10)))
            assert {got.status for got in answers} == {200}
    assert answer.served == 30


async def test_what_a_provider_may_have_worked_on_is_not_sent_twice() -> None:
    """One who takes a request on a new connection and breaks off, or breaks off late, may have billed it."""
    taken: list[str] = []

    async def answer(line: Line, head: Head) -> bool:
        await line.body(head)
        taken.append(head.target)
        if head.target == "/fine":
            await line.send(OK)
            return False
        await asyncio.sleep(1.2 if head.target == "/late" else 0)
        return True

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        assert (await exchange(url, "POST", "/new", [], b"{}")).status == 502
        assert (await exchange(url, "POST", "/fine", [], b"{}")).status == 200
        assert (await exchange(url, "POST", "/late", [], b"{}")).status == 502
    assert taken == ["/new", "/fine", "/late"]


async def test_a_provider_that_answers_before_it_has_read_all() -> None:
    """Too large, it says at once; the agent reads that although it is still sending."""

    async def answer(line: Line, head: Head) -> bool:
        await line.send(b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 3\r\n\r\nno!")
        await line.reader.read(1000)
        return True

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(request("POST", "/v1/files", [("Content-Length", "50000000")]) + b"x" * 100_000)
        got = await line.whole()
        assert (got.status, got.body) == (413, b"no!")


@pytest.fixture
def forward_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    asking._proxy_for.cache_clear()
    yield monkeypatch
    asking._proxy_for.cache_clear()


async def test_the_environment_s_proxy_is_used_as_agents_would_use_it(forward_proxy: pytest.MonkeyPatch) -> None:
    async with raw_upstream() as way_out:
        for name in ("NO_PROXY", "no_proxy", "HTTP_PROXY", "REQUEST_METHOD"):
            forward_proxy.delenv(name, raising=False)
        forward_proxy.setenv("http_proxy", way_out.url)
        async with proxy("http://provider.invalid/base") as (_, url):
            assert (await exchange(url, "GET", "/v1/models?a=b")).status == 200
        async with raw_upstream() as local, proxy(local.url) as (_, url):
            assert (await exchange(url)).status == 200
            assert local.connections == 1, "this machine is reached without it"
    (got,) = way_out.got
    assert got.target == "http://provider.invalid/base/v1/models?a=b"
    assert got["host"] == "provider.invalid"


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
async def sockets() -> str:  # type: ignore[misc]
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
    key = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]
    async with proxy(sockets) as (_, url), await connect(url) as line:
        await line.send(request("GET", "/v1/responses?refuse", [*key, ("Sec-WebSocket-Version", "13")]))
        got = await line.whole()
        assert got.first == "HTTP/1.1 426 Not today"
        assert (got["x-why"], got.body) == ("full", b"use SSE")
        await line.send(request("GET", "/v1/responses?refuse", [*key, ("Sec-WebSocket-Version", "13")]))
        assert (await line.whole()).status == 426, "and the connection goes on"


async def test_websockets_can_be_refused_here(sockets: str) -> None:
    key = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]
    async with proxy(sockets, refuse_websockets=True) as (_, url):
        got = await exchange(url, "GET", "/v1/responses", [*key, ("Sec-WebSocket-Version", "13")])
    assert got.status == 426
    assert got["x-focusctx-error"] == "1"


async def test_a_websocket_passes_on_what_came_with_the_handshake() -> None:
    """Bytes that follow the handshake at once, from either side, in one packet with it."""

    async def answer(line: Line, head: Head) -> bool:
        await line.send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nwelcome")
        assert await line.reader.readexactly(5) == b"hello"
        await line.send(b"bye")
        return True

    head = request("GET", "/v1/responses", [("Connection", "Upgrade"), ("Upgrade", "websocket")])
    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(head + b"hello")
        assert (await line.head()).first == "HTTP/1.1 101 Switching Protocols"
        assert await line.ended() == b"welcomebye"
    assert up.broken == []


async def test_another_upgrade_is_left_to_the_two_ends_of_a_connection() -> None:
    """Java's client asks for HTTP/2 with every first request, and takes no for an answer."""
    h2c = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk")]
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        assert (await exchange(url, "POST", "/v1/embeddings", h2c, b"{}")).status == 200
    assert up.got[0].body == b"{}"
    assert "upgrade" not in up.got[0]
    assert "http2-settings" not in up.got[0]
