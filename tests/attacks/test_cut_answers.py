"""An answer that was cut off reaches the agent as a broken transfer, never as a complete answer."""

import asyncio
import gzip
import json
import socket
import struct

import pytest

from helpers.raw_http import OK, Head, Line, connect, exchange, proxy, raw_upstream, request
from helpers.troubled import CHAT, eager, history

pytestmark = pytest.mark.usefixtures("nothing_left")

SPELLINGS = ["chunked", "Chunked", "CHUNKED", "  chUNKed", "chunked \t"]
CUTS = {
    "between chunks": b"",
    "in a size": b"f",
    "after a size": b"ff\r\n",
    "in a chunk": b"ff\r\nand then",
    "after a chunk": b"3\r\nabc",
    "before the last line": b"0\r\n",
    "in the trailers": b"0\r\nx-more: 1\r\n",
    "nonsense": b"no size at all\r\n",
}
EVENT = b"data: 1\n\n"


def lose(line: Line, how: str) -> None:
    if how == "reset":
        end = line.writer.get_extra_info("socket")
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        line.reset()


class Cut:
    """A provider that sends the head and one event, and cuts the answer off when the agent has them."""

    def __init__(self, head: str, begun: bytes, rest: bytes, how: str = "close") -> None:
        self.begun = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{head}\r\n".encode() + begun
        self.rest = rest
        self.how = how
        self.arrived = asyncio.Event()

    async def __call__(self, line: Line, head: Head) -> bool:
        await line.body(head)
        await line.send(self.begun)
        await self.arrived.wait()
        await line.send(self.rest)
        await asyncio.sleep(0.02)
        lose(line, self.how)
        return True


async def received(url: str, cut: Cut, version: str = "1.1") -> bytes:
    """Return all that an agent gets, to the end of its connection. A reset also says that something is missing."""
    async with await connect(url) as line:
        asked = request("POST", CHAT, [("Connection", "close")], history(2))
        await line.send(asked.replace(b"HTTP/1.1", f"HTTP/{version}".encode(), 1))
        got = b""
        while EVENT not in got:
            got += await line.reader.read(1000) or pytest.fail(f"the answer ended: {got!r}")
        cut.arrived.set()
        try:
            return got + await asyncio.wait_for(line.reader.read(), 3)
        except ConnectionResetError:
            return b"reset"


def is_complete(got: bytes) -> bool:
    """Whether a chunked answer has its last chunk."""
    head, _, rest = got.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head.lower()
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        if int(size, 16) == 0:
            return rest == b"\r\n"
        rest = rest[int(size, 16) + 2 :]
    return False


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("rest", CUTS.values(), ids=CUTS.keys())
@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_chunked_answer(spelling: str, rest: bytes, how: str) -> None:
    cut = Cut(f"Transfer-Encoding: {spelling}\r\n", b"%x\r\n%s\r\n" % (len(EVENT), EVENT), rest, how)
    async with raw_upstream(cut) as up, proxy(up.url) as (_, url):
        got = await received(url, cut)
    assert got == b"reset" or (EVENT in got and not is_complete(got))


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_chunked_answer_to_the_oldest_agents(spelling: str) -> None:
    """HTTP/1.0 has no chunks: a closed connection is the end of the answer, so only a reset says that it is not."""
    cut = Cut(f"Transfer-Encoding: {spelling}\r\n", b"%x\r\n%s\r\n" % (len(EVENT), EVENT), b"")
    async with raw_upstream(cut) as up, proxy(up.url) as (_, url):
        assert await received(url, cut, "1.0") == b"reset"


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_an_answer_of_known_length(how: str) -> None:
    cut = Cut("content-length: 100\r\n", EVENT, b"more", how)
    async with raw_upstream(cut) as up, proxy(up.url) as (_, url):
        got = await received(url, cut)
    head, _, body = got.partition(b"\r\n\r\n")
    assert got == b"reset" or (b"Content-Length: 100" in head and len(body) < 100)


async def test_an_answer_without_a_length_that_ends_with_a_reset() -> None:
    cut = Cut("", EVENT, b"", "reset")
    async with raw_upstream(cut) as up, proxy(up.url) as (_, url):
        got = await received(url, cut)
    assert got == b"reset" or not is_complete(got)


async def test_an_answer_without_a_length_that_ends_with_the_connection_is_complete() -> None:
    cut = Cut("", EVENT, b"data: 2\n\n")
    async with raw_upstream(cut) as up, proxy(up.url) as (_, url):
        got = await received(url, cut)
    assert is_complete(got)
    assert b"data: 2" in got


@pytest.mark.parametrize("coding", ["gzip", "gzip, chunked", "chunked, gzip", "chunked,", "identity", "xchunked"])
async def test_other_transfer_encodings_are_refused(coding: str) -> None:
    """The proxy would pass the coded bytes on without the header that says how."""
    answer = f"HTTP/1.1 200 OK\r\ntransfer-encoding: {coding}\r\n\r\n".encode() + b"3\r\nabc\r\n0\r\n\r\n"

    async def once(line: Line, head: Head) -> bool:
        await line.body(head)
        await line.send(answer)
        return True

    async with raw_upstream(once) as up, proxy(up.url) as (_, url):
        got = await exchange(url, "POST", CHAT, [], history(2))
    assert got.status == 502


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_that_recall_looks_into(packed: bool, streamed: bool) -> None:
    kind = "text/event-stream" if streamed else "application/json"
    text = b'data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}\n\n' * 50
    body = gzip.compress(text)[:-20] if packed else text
    encoding = "content-encoding: gzip\r\n" if packed else ""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{encoding}Transfer-Encoding: Chunked\r\n\r\n"

    async def answer(line: Line, request: Head) -> bool:
        await line.body(request)
        await line.send(head.encode())
        await line.chunk(body)
        return True

    asked = json.loads(history())
    asked["tools"] = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    async with (
        raw_upstream(answer) as up,
        proxy(up.url, focus=eager(), recall=True) as (_, url),
        await connect(url) as line,
    ):
        await line.send(request("POST", CHAT, [("Connection", "close")], json.dumps(asked).encode()))
        got = await asyncio.wait_for(line.reader.read(), 3)
    assert got.startswith(b"HTTP/1.1 502") or not is_complete(got)


@pytest.mark.parametrize("framing", ["chunked", "length", "connection"])
async def test_a_complete_answer_to_a_slow_agent_is_complete(framing: str) -> None:
    """The provider has sent all of it and closed the connection long before the agent has read it."""
    body = b"x" * 3_000_000

    async def answer(line: Line, head: Head) -> bool:
        if framing == "chunked":
            await line.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for start in range(0, len(body), 50_000):
                await line.chunk(body[start : start + 50_000])
            await line.send(b"0\r\n\r\n")
        else:
            length = b"content-length: %d\r\n" % len(body) if framing == "length" else b""
            await line.send(b"HTTP/1.1 200 OK\r\n%s\r\n" % length + body)
        return True

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url, limit=1 << 14) as line:
        await line.send(request())
        head = await line.head()
        await asyncio.sleep(0.5)
        assert await asyncio.wait_for(line.body(head), 10) == body


async def test_after_a_cut_answer_the_next_request_is_answered() -> None:
    async def answer(line: Line, head: Head) -> bool:
        await line.body(head)
        if head.target == "/fine":
            await line.send(OK)
            return False
        await line.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab")
        return True

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        async with await connect(url) as line:
            await line.send(request("POST", CHAT, [], history(2)))
            await asyncio.wait_for(line.ended(), 3)
        assert (await exchange(url, "POST", "/fine", [], b"{}")).status == 200
