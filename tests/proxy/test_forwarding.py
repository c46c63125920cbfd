"""Forwarding that nobody notices: bytes, headers, status and time, in both directions."""

import asyncio
import gzip
import os

import pytest

from helpers.raw_http import (
    OK,
    STREAM,
    Head,
    Line,
    connect,
    exchange,
    proxy,
    raw_upstream,
    request,
)

pytestmark = pytest.mark.usefixtures("nothing_left")


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
        await line.send(b"GET /v1/models HTTP/1.0\r\n\r\n")
        head = await line.head()
        assert "transfer-encoding" not in head
        assert await line.reader.readexactly(9) == b"data: 1\n\n"
        if breaks:
            with pytest.raises(ConnectionResetError):
                await line.reader.read()
        else:
            assert await line.reader.read() == b""


async def test_requests_in_a_row_are_answered_in_a_row() -> None:
    async def answer(line: Line, head: Head) -> None:
        name = head.target.encode()
        await asyncio.sleep(0.05 if name == b"/1" else 0)
        await line.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(name), name))

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(b"".join(request("GET", f"/{number}") for number in (1, 2, 3)))
        assert [(await line.whole()).body for _ in range(3)] == [b"/1", b"/2", b"/3"]


async def test_another_upgrade_is_left_to_the_two_ends_of_a_connection() -> None:
    """Java's client asks for HTTP/2 with every first request, and takes no for an answer."""
    h2c = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk")]
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        assert (await exchange(url, "POST", "/v1/embeddings", h2c, b"{}")).status == 200
    assert up.got[0].body == b"{}"
    assert "upgrade" not in up.got[0]
    assert "http2-settings" not in up.got[0]
