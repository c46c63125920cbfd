"""Clients that hold a connection without saying what they want are cut off; slow ones with something to say are not."""

import asyncio
import time

import pytest

from focusctx.proxy import app
from focusctx.proxy import request as request_module
from helpers.raw_http import Line, connect, exchange, proxy, raw_upstream, request

CHAT = "/v1/chat/completions"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that waits for fractions of the usual time."""
    monkeypatch.setattr(app, "HEAD", 0.5)
    monkeypatch.setattr(request_module, "SILENCE", 0.5)
    monkeypatch.setattr(request_module, "GRACE", 1.0)


async def trickle(line: Line, text: bytes, pause: float) -> None:
    for byte in text:
        await line.send(bytes([byte]))
        await asyncio.sleep(pause)


async def is_cut_off(line: Line, within: float = 5.0) -> bool:
    try:
        await asyncio.wait_for(line.ended(), within)
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTT", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "])
async def test_a_head_that_never_ends(impatient: None, sent: bytes) -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(sent)
        assert await is_cut_off(line)
    assert up.connections == 0


async def test_a_head_that_comes_byte_by_byte(impatient: None) -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url), await connect(url) as line:
        writing = asyncio.create_task(trickle(line, b"GET /v1/models HTTP/1.1\r\n" + b"X-A: 1\r\n" * 1000, 0.02))
        assert await is_cut_off(line)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def test_a_second_head_that_never_ends(impatient: None) -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(request())
        assert (await line.whole()).status == 200
        await asyncio.sleep(1)  # idle, which is allowed
        await line.send(request())
        assert (await line.whole()).status == 200
        await line.send(b"GET /v1/mod")
        assert await is_cut_off(line)
    assert len(up.got) == 2


async def test_many_of_them_keep_nobody_out(impatient: None) -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        lines = [await connect(url) for _ in range(300)]
        for line in lines:
            await line.send(b"POST /v1/chat/comp")
        assert (await exchange(url)).status == 200
        assert all(await asyncio.gather(*map(is_cut_off, lines)))
        for line in lines:
            await line.close()


async def test_answers_may_take_as_long_as_they_take(impatient: None) -> None:
    async def answer(line: Line, head: object) -> None:
        await asyncio.sleep(1.5)
        await line.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        assert (await exchange(url)).status == 200


@pytest.mark.parametrize("path", [CHAT, "/v1/files"])
async def test_a_body_that_stops(impatient: None, path: str) -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(request("POST", path, [("content-length", "5000")]) + b'{"messages":')
        assert (await line.whole()).status == 408
    assert up.got == []


async def test_a_stream_that_stops(impatient: None) -> None:
    async with raw_upstream() as up, proxy(up.url, body_limit=10) as (_, url), await connect(url) as line:
        await line.send(request("POST", CHAT, [("content-length", "5000")]) + b'{"messages":')
        assert (await line.head()).status in (400, 408)
    assert up.got == []


async def test_a_body_of_a_few_bytes_a_second(impatient: None) -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url), await connect(url) as line:
        began = time.monotonic()
        await line.send(request("POST", CHAT, [("content-length", "5000")]))
        writing = asyncio.create_task(trickle(line, b" " * 1000, 0.2))
        assert (await line.whole()).status == 408
        assert time.monotonic() - began > 0.9, "not before the grace period is over"
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def test_a_slow_body_that_keeps_coming(impatient: None) -> None:
    body = b'{"messages":[]}' + b" " * 9985
    async with raw_upstream() as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(request("POST", CHAT, [("content-length", str(len(body)))]))
        for start in range(0, len(body), 500):
            await line.send(body[start : start + 500])
            await asyncio.sleep(0.1)
        assert (await line.whole()).status == 200
    assert up.got[0].body == body
