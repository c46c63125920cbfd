"""Agents that leave, repeat themselves or talk nonsense: nothing of theirs is left, above or here."""

import asyncio
import gc

import aiohttp
import pytest
from aiohttp import web

from focusctx import Focus
from helpers.histories import run
from helpers.raw_http import STREAM, Head, Line, connect, eventually, proxy, raw_upstream, request
from helpers.session_parts import Draft
from helpers.troubled import CHAT, history, post, sent

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize("when", ["before the answer", "in the middle", "by reset"])
async def test_an_agent_who_leaves_cancels_the_request_above(when: str) -> None:
    async def answer(line: Line, head: Head) -> None:
        await line.body(head)
        asked.set()
        if when == "before the answer":
            await line.reader.read()
            return
        await line.send(STREAM)
        while True:
            await line.chunk(b"data: x\n\n")
            await asyncio.sleep(0.01)

    asked = asyncio.Event()
    async with raw_upstream(answer) as up, proxy(up.url) as (served, url):
        line = await connect(url)
        await line.send(request("POST", CHAT, [], history(2)))
        await asyncio.wait_for(asked.wait(), 2)
        if when != "before the answer":
            await line.head()
            await line.read_chunk()
        if when == "by reset":
            line.reset()
        else:
            await line.close()
        assert await eventually(lambda: up.open == 0, 1.0)
        if when == "before the answer":
            assert b'focusctx_requests_total{status="499",upstream="up0"} 1.0' in served.metrics.text()


async def test_agents_who_leave_while_their_provider_is_being_connected_to_leave_no_socket() -> None:
    """At every turn of the event loop. (asyncio's own connecting with several attempts at once loses a socket here.)"""
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        for turns in range(60):
            line = await connect(url)
            await line.send(request("POST", "/v1/embeddings", [("Connection", "close")], b"{}"))
            for _ in range(turns):
                await asyncio.sleep(0)
            line.reset()
            await asyncio.sleep(0.01)
        gc.collect()
        assert await eventually(lambda: up.open <= 1)


async def test_an_agent_who_leaves_in_the_middle_of_an_upload() -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        for path, size in ((CHAT, 10_000), ("/v1/files", 9_000_000)):
            line = await connect(url)
            await line.send(request("POST", path, [("Content-Length", str(size))]) + b"{" * 5000)
            await asyncio.sleep(0.05)
            await line.close()
        assert await eventually(lambda: up.open == 0, 1.0)
    assert up.got == []


async def test_an_agent_who_leaves_during_an_event_stops_the_draft() -> None:
    draft = Draft(seconds=20)
    async with raw_upstream() as up, proxy(up.url, focus=Focus(draft, budget=50)) as (_, url):
        line = await connect(url)
        await line.send(request("POST", CHAT, [], history()))
        assert await eventually(lambda: draft.under_way == 1)
        await line.close()
        assert await eventually(lambda: draft.under_way == 0, 1.0)
        assert up.got == []


async def test_two_at_once_on_one_conversation() -> None:
    """An agent's impatient retry: both get an answer, and the same history goes up."""
    async with raw_upstream() as up, proxy(up.url, focus=Focus(Draft(seconds=0.1), budget=50)) as (_, url):
        assert await asyncio.gather(*(post(url, history()) for _ in range(5))) == [200] * 5
    assert len({got.body for got in up.got}) == 1
    assert len(sent(up)) < len(run(12))


async def test_an_agent_whose_chunks_make_no_sense() -> None:
    """The provider never takes it for a request, and when the agent gives up all of it is gone."""
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        for path in (CHAT, "/v1/files"):
            async with await connect(url) as line:
                await line.send(request("POST", path, [("Transfer-Encoding", "chunked")]) + b"5\r\nhello\r\n")
                await asyncio.sleep(0.05)
                await line.send(b"what?\r\n")
                await asyncio.sleep(0.05)
        assert await eventually(lambda: up.open == 0, 1.0)
    assert up.got == []


async def test_an_agent_that_leaves_while_it_is_written_to(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Between the end of its connection and the end of its request."""

    async def gone(*_: object) -> None:
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    async def answer(line: Line, head: Head) -> None:
        await line.body(head)
        await line.send(STREAM)
        await line.chunk(b"data: 1\n\n")
        await asyncio.sleep(0.05)
        await line.send(b"0\r\n\r\n")

    async with raw_upstream(answer) as up, proxy(up.url) as (served, url), await connect(url) as line:
        monkeypatch.setattr(web.StreamResponse, "write_eof", gone)
        await line.send(request("POST", CHAT, [], history()))
        await line.ended()
        monkeypatch.undo()
        assert b'status="499"' in served.metrics.text()
    assert "Traceback" not in caplog.text
    assert "Error handling" not in caplog.text
