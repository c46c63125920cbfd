"""A POST reaches its provider at most once: the provider may have worked on it and billed it."""

import asyncio
import json
import socket
import struct
from collections import Counter

import pytest

from helpers.raw_http import OK, Head, Line, Whole, connect, exchange, proxy, raw_upstream, request

pytestmark = pytest.mark.usefixtures("nothing_left")


class Unreliable:
    """A provider that answers the first request on each connection, and loses the connection at some later point."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.taken: Counter[str] = Counter()
        """How often each request was read, by its name."""

    async def __call__(self, line: Line, head: Head) -> bool:
        await line.body(head)
        self.taken[head["x-name"]] += 1
        await line.send(OK)
        if self.how.startswith("idle"):
            await self._lose(line)
            return True
        head = await line.head()
        if self.how == "reads the head":
            self.taken[head["x-name"]] += 1
        else:
            await line.body(head)
            self.taken[head["x-name"]] += 1
        if self.how == "late":
            await asyncio.sleep(1.2)
        if self.how == "begins to answer":
            await line.send(b"HTTP/1.1 200 O")
        await self._lose(line)
        return True

    async def _lose(self, line: Line) -> None:
        if self.how.endswith("reset"):
            end = line.writer.get_extra_info("socket")
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            line.reset()


def may_have_arrived(got: Whole) -> bool:
    message: str = json.loads(got.body)["error"]["message"]
    return got.status == 502 and "may have reached it" in message


@pytest.mark.parametrize(
    "how", ["reads the head", "reads it", "reads it, then reset", "late", "begins to answer"], ids=str
)
@pytest.mark.parametrize("size", [2, 200_000, 3_000_000])
async def test_a_post_on_a_connection_that_was_used_before(how: str, size: int) -> None:
    provider = Unreliable(how)
    async with raw_upstream(provider) as up, proxy(up.url) as (_, url):
        for number in range(6):
            got = await exchange(url, "POST", "/v1/embeddings", [("x-name", str(number))], b"x" * size)
            assert got.status == 200 or may_have_arrived(got), got
    assert set(provider.taken.values()) == {1}


async def test_many_at_once_after_the_provider_restarted() -> None:
    provider = Unreliable("reads it")
    async with raw_upstream(provider) as up, proxy(up.url) as (_, url):
        for turn in range(3):
            names = [f"{turn} {number}" for number in range(10)]
            asked = (exchange(url, "POST", "/x", [("x-name", name)], b"{}") for name in names)
            for got in await asyncio.gather(*asked):
                assert got.status == 200 or may_have_arrived(got), got
    assert max(provider.taken.values()) == 1


async def test_a_post_on_a_new_connection() -> None:
    taken: list[str] = []

    async def answer(line: Line, head: Head) -> bool:
        await line.body(head)
        taken.append(head.target)
        return True

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        for path in ("/v1/chat/completions", "/v1/embeddings"):
            assert may_have_arrived(await exchange(url, "POST", path, [], b'{"messages": []}'))
    assert taken == ["/v1/chat/completions", "/v1/embeddings"]


async def test_an_upload_that_is_passed_on_as_it_comes() -> None:
    provider = Unreliable("reads it")
    async with raw_upstream(provider) as up, proxy(up.url) as (_, url):
        for number in range(4):
            async with await connect(url) as line:
                chunked = [("Transfer-Encoding", "chunked"), ("x-name", str(number))]
                await line.send(request("POST", "/v1/files", chunked) + b"3\r\nabc\r\n0\r\n\r\n")
                got = await line.whole()
                assert got.status == 200 or may_have_arrived(got), got
    assert set(provider.taken.values()) == {1}


@pytest.mark.parametrize("how", ["idle", "idle, then reset"])
@pytest.mark.parametrize("pause", [0.0, 0.05])
@pytest.mark.parametrize("size", [2, 200_000, 3_000_000])
async def test_a_connection_that_the_provider_closed_while_it_was_idle_costs_no_request(
    how: str, pause: float, size: int
) -> None:
    provider = Unreliable(how)
    async with raw_upstream(provider) as up, proxy(up.url) as (_, url):
        for number in range(8):
            got = await exchange(url, "POST", "/v1/embeddings", [("x-name", str(number))], b"x" * size)
            assert got.status == 200
            await asyncio.sleep(pause)
    assert set(provider.taken.values()) == {1}


async def test_no_connection_is_used_that_common_servers_are_about_to_close() -> None:
    """uvicorn and Node close idle connections after five seconds."""
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        for pause, connections in [(1, 1), (4.2, 1), (0, 2)]:
            assert (await exchange(url, "POST", "/v1/embeddings", [], b"{}")).status == 200
            assert up.connections == connections
            await asyncio.sleep(pause)


async def test_a_get_is_repeated_once() -> None:
    """HTTP allows it, and it costs nobody anything."""
    provider = Unreliable("reads it")
    async with raw_upstream(provider) as up, proxy(up.url) as (_, url):
        for number in range(4):
            assert (await exchange(url, "GET", "/v1/models", [("x-name", str(number))])).status == 200
    assert max(provider.taken.values()) == 2
