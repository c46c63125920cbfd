"""Connections are kept on both sides, and one that was closed while it lay idle costs nobody a request."""

import asyncio
import socket
import struct

import pytest

from raw_http import OK, Head, Line, connect, exchange, proxy, raw_upstream, request

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_connections_are_kept_on_both_sides() -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url), await connect(url) as line:
        for number in range(10):
            await line.send(request("POST", f"/v1/{number}", [], b"{}"))
            assert (await line.whole()).status == 200
        assert up.connections == 1
        assert len(up.got) == 10


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
    """One who takes a request on a new connection and breaks off, or late, or in its answer, may have billed it."""
    taken: list[str] = []

    async def answer(line: Line, head: Head) -> bool:
        await line.body(head)
        taken.append(head.target)
        if head.target == "/fine":
            await line.send(OK)
            return False
        if head.target == "/half":
            await line.send(b"HTTP/1.1 2")
        await asyncio.sleep(1.2 if head.target == "/late" else 0)
        return True

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        assert (await exchange(url, "POST", "/new", [], b"{}")).status == 502
        assert (await exchange(url, "POST", "/fine", [], b"{}")).status == 200
        assert (await exchange(url, "POST", "/late", [], b"{}")).status == 502
        assert (await exchange(url, "POST", "/fine", [], b"{}")).status == 200
        assert (await exchange(url, "POST", "/half", [], b"{}")).status == 502
    assert taken == ["/new", "/fine", "/late", "/fine", "/half"]


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
