"""Whatever breaks around the proxy: what would have worked without it works with it, nothing hangs, nothing is left."""

import asyncio
import json
import resource
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from focusctx import Focus
from helpers.histories import run
from helpers.raw_http import (
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
from helpers.session_parts import NOTHING, Draft
from helpers.troubled import CHAT, eager, history, post, sent

pytestmark = pytest.mark.usefixtures("nothing_left")

# The provider


async def _reset(line: Line) -> None:
    await asyncio.sleep(0.02)
    line.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    line.reset()


async def _half_a_chunk(line: Line) -> None:
    await line.send(b"ff\r\ndata: and then")


async def _half_a_size(line: Line) -> None:
    await line.send(b"f")


async def _nonsense(line: Line) -> None:
    await asyncio.sleep(0.02)
    await line.send(b"this is no size\r\nhello")


async def _end(line: Line) -> None:
    """The last chunk is missing."""


@pytest.mark.parametrize("how", [_reset, _half_a_chunk, _half_a_size, _nonsense, _end])
async def test_a_stream_that_breaks_off_breaks_off(how: Any) -> None:
    """The agent has what there was, and must not take it for all there is."""

    async def answer(line: Line, head: Head) -> bool:
        await line.body(head)
        if head.target == "/fine":
            await line.send(OK)
            return False
        await line.send(STREAM)
        await line.chunk(b"data: 1\n\n")
        await arrived.wait()
        await how(line)
        return True

    arrived = asyncio.Event()
    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        async with await connect(url) as line:
            await line.send(request("POST", CHAT, [], history(2)))
            assert (await line.head()).status == 200
            assert await line.read_chunk() == b"data: 1\n\n"
            arrived.set()
            rest = await asyncio.wait_for(line.ended(), 2)
            assert not rest.endswith(b"0\r\n\r\n")
        assert (await exchange(url, "GET", "/fine")).status == 200


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"", 502),
        (b"HTTP/1.1 200 OK\r\ncontent-le", 502),
        (b"SSH-2.0-OpenSSH_9.2\r\n", 502),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n", 502),
    ],
)
async def test_no_answer_is_told_in_the_form_of_an_error(answer: bytes, status: int) -> None:
    async def broken(line: Line, head: Head) -> bool:
        await line.body(head)
        await line.send(answer)
        return True

    async with raw_upstream(broken) as up, proxy(up.url) as (_, url):
        got = await exchange(url, "POST", CHAT + "?key=sk-secret", [], history(2))
    assert got.status == status
    error = json.loads(got.body)["error"]
    assert error["message"].startswith("focusctx: up0 did not answer: ")
    assert "sk-secret" not in error["message"]


async def test_a_body_that_ends_too_early_is_cut_off() -> None:
    async def answer(line: Line, head: Head) -> bool:
        await line.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello")
        return True

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(request())
        await line.head()
        assert await asyncio.wait_for(line.ended(), 2) == b"hello"


async def test_nobody_there() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with proxy(f"http://127.0.0.1:{port}") as (_, url):
        got = await exchange(url, "POST", CHAT, [], history())
    assert got.status == 502
    assert b"no connection to 127.0.0.1: Connection refused" in got.body


async def test_a_silent_stream_is_waited_for() -> None:
    """Longer than any of the waits inside the proxy."""

    async def answer(line: Line, head: Head) -> None:
        await line.body(head)
        await asyncio.sleep(1.2)
        await line.send(STREAM)
        await asyncio.sleep(1.2)
        await line.chunk(b"data: at last\n\n")
        await line.send(b"0\r\n\r\n")

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        assert (await exchange(url, "POST", CHAT, [], history())).body == b"data: at last\n\n"


async def test_a_reader_who_stops_reading_holds_up_the_provider_and_no_memory() -> None:
    written = 0

    async def answer(line: Line, head: Head) -> None:
        nonlocal written
        await line.send(STREAM)
        for _ in range(2000):
            await line.chunk(b"x" * 100_000)
            written += 100_000

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url, limit=1 << 16) as line:
        await line.send(request())
        await line.head()
        seen = -1
        while seen != written:
            seen = written
            await asyncio.sleep(0.3)
        assert written < 60_000_000, "sockets hold some, the proxy next to nothing"
        line.reset()
        assert await eventually(lambda: up.open == 0, 1.0)


async def test_ten_megabytes() -> None:
    text = "word " * 2000
    messages = run(1000)
    for message in messages:
        if message["role"] == "tool":
            message["content"] = text
    body = json.dumps({"model": "m", "messages": messages}).encode()
    assert len(body) > 10_000_000
    async with raw_upstream() as up, proxy(up.url, focus=eager()) as (_, url):
        started = time.process_time()  # not the clock: other tests run beside this one
        assert await post(url, body) == 200
        assert time.process_time() - started < 10
        assert len(up.got[0].body) < 100_000
        assert await post(url, json.dumps({"model": "m", "messages": messages[:-2]}).encode()) == 200
    async with raw_upstream() as up, proxy(up.url, focus=eager(), body_limit=1_000_000) as (_, url):
        assert await post(url, body) == 200
        assert up.got[0].body == body


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 8192:
        pytest.skip("not enough file descriptors allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_thousand_streams_held_open(many_files: None) -> None:
    count = 1000
    go_on = asyncio.Event()

    async def answer(line: Line, head: Head) -> None:
        await line.body(head)
        await line.send(STREAM)
        await line.chunk(b"data: 1\n\n")
        await go_on.wait()
        await line.chunk(b"data: 2\n\n")
        await line.send(b"0\r\n\r\n")

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):

        async def stream(number: int) -> bytes:
            async with await connect(url, limit=1 << 14) as line:
                await line.send(request("POST", CHAT, [], history(1, str(number))))
                await line.head()
                first = await line.read_chunk()
                held.append(number)
                return first + await line.read_chunk() + await line.read_chunk()

        held: list[int] = []
        streams = [asyncio.create_task(stream(number)) for number in range(count)]
        assert await eventually(lambda: len(held) == count, 25)
        assert up.open == count
        assert (await exchange(url, "GET", "/healthz")).status == 200
        go_on.set()
        assert set(await asyncio.gather(*streams)) == {b"data: 1\n\ndata: 2\n\n"}


# The draft


@pytest.mark.parametrize("plan", ["", "I'd rather not.", "Step: x | Depends on: [s_9999]", "\0" * 10_000, NOTHING[:9]])
async def test_a_draft_that_talks_nonsense(plan: str) -> None:
    async with raw_upstream() as up, proxy(up.url, focus=Focus(Draft(plan), budget=50)) as (_, url):
        for steps in (12, 13, 14):
            assert await post(url, history(steps)) == 200
    assert [sent(up, place)[-1] for place in range(3)] == [run(steps)[-1] for steps in (12, 13, 14)]


async def test_a_draft_that_is_down() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    focus = Focus(f"openai:m@http://127.0.0.1:{port}/v1", budget=50, deadline=1.0, breaker_failures=2)
    async with raw_upstream() as up, proxy(up.url, focus=focus) as (_, url):
        took = []
        for steps in range(12, 18):
            started = time.monotonic()
            assert await post(url, history(steps)) == 200
            took.append(time.monotonic() - started)
    assert [got.body for got in up.got] == [history(steps) for steps in range(12, 18)]
    assert max(took) < 2
    assert max(took[-2:]) < 0.3, "after a few failures it is left alone"


async def test_a_slow_draft_is_waited_for_until_its_deadline() -> None:
    focus = Focus(Draft(seconds=20), budget=50, deadline=0.4, breaker_failures=1)
    async with raw_upstream() as up, proxy(up.url, focus=focus) as (_, url):
        started = time.monotonic()
        assert await post(url, history(12)) == 200
        assert time.monotonic() - started < 1.5
        started = time.monotonic()
        assert await post(url, history(13)) == 200
        assert time.monotonic() - started < 0.3
    assert [got.body for got in up.got] == [history(12), history(13)]


# The end


async def test_the_end_waits_for_streams_and_no_longer_than_it_should() -> None:
    go_on = asyncio.Event()

    async def answer(line: Line, head: Head) -> None:
        await line.send(STREAM)
        await line.chunk(b"data: 1\n\n")
        if head.target == "/short":
            await go_on.wait()
            await line.chunk(b"data: 2\n\n")
            await line.send(b"0\r\n\r\n")
        else:
            await line.reader.read()

    async with raw_upstream(answer) as up:
        async with proxy(up.url, grace=10.0) as (_, url):
            line = await connect(url)
            await line.send(request("GET", "/short"))
            await line.head()
            await line.read_chunk()
            asyncio.get_running_loop().call_later(0.3, go_on.set)
        assert await line.read_chunk() == b"data: 2\n\n"
        assert await line.read_chunk() == b""
        await line.close()

        async with proxy(up.url, grace=0.5) as (_, url):
            line = await connect(url)
            await line.send(request("GET", "/endless"))
            await line.head()
            await line.read_chunk()
            started = time.monotonic()
        assert 0.4 < time.monotonic() - started < 0.8
        assert not (await line.ended()).endswith(b"0\r\n\r\n")
        await line.close()
