"""The stream of news: at once, together, never in the way of a proxy that is to stop."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from yarl import URL

from focusctx.proxy.conversations import Key
from focusctx.proxy.dashboard import routes
from focusctx.proxy.request import Request


async def messages(answer: aiohttp.ClientResponse) -> AsyncIterator[Any]:
    async for line in answer.content:
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


async def test_what_happens_is_told_at_once_and_only_what_changed(staging):
    async with staging() as stage:
        one, other = stage.agent("one"), stage.agent("other")
        await one.step()
        async with stage.http.get(f"{stage.url}/ui/api/live") as answer:
            assert answer.content_type == "text/event-stream"
            news = messages(answer)
            first = await anext(news)
            assert first["about"]["budget"] == 2500
            assert [session["requests"] for session in first["sessions"]] == [1]
            await other.step()
            (fresh,) = (await anext(news))["sessions"]
            assert fresh["id"] != first["sessions"][0]["id"]
            await one.step()
            (again,) = (await anext(news))["sessions"]
            assert (again["id"], again["requests"]) == (first["sessions"][0]["id"], 2)


async def test_a_flood_comes_together(staging):
    async with staging() as stage:
        agent = stage.agent()
        async with stage.http.get(f"{stage.url}/ui/api/live") as answer:
            news = messages(answer)
            await anext(news)
            started = time.monotonic()
            await agent.step(30)
            told = []
            while not told or told[-1]["sessions"][0]["requests"] < 30:
                told.append(await anext(news))
            assert len(told) <= 2 + (time.monotonic() - started) / 0.25


async def test_a_restored_span_is_news_for_other_pages(staging):
    async with staging() as stage:
        await stage.agent().step(12)
        async with stage.http.get(f"{stage.url}/ui/api/live") as answer:
            news = messages(answer)
            (session,) = (await anext(news))["sessions"]
            async with stage.http.post(
                f"{stage.url}/ui/api/sessions/{session['id']}/restore", json={"span": 5}
            ) as restored:
                assert restored.status == 200
            assert list((await anext(news))["sessions"][0]["restored"]) == ["5"]


async def test_a_session_that_was_let_go_of_is_gone(staging):
    async with staging() as stage:
        await stage.agent("one").step()
        async with stage.http.get(f"{stage.url}/ui/api/live") as answer:
            news = messages(answer)
            (session,) = (await anext(news))["sessions"]
            await stage.proxy.conversations.close()
            await stage.agent("other").step()
            assert (await anext(news))["gone"] == [session["id"]]


async def test_silence_is_broken_so_that_the_connection_is_not_taken_for_dead(staging, monkeypatch):
    monkeypatch.setattr(routes, "_SILENCE", 0.05)
    async with staging() as stage, stage.http.get(f"{stage.url}/ui/api/live") as answer:
        lines = [await answer.content.readline() for _ in range(6)]
        assert b": still here\n" in lines


async def test_a_page_that_is_closed_leaves_nothing_behind(staging):
    async with staging() as stage:
        async with stage.http.get(f"{stage.url}/ui/api/live") as answer:
            await anext(messages(answer))
            assert len(stage.proxy.watchers) == 1
            answer.close()
        for _ in range(100):
            if not stage.proxy.watchers:
                return
            await asyncio.sleep(0.02)
        raise AssertionError("somebody is still waiting")


async def test_open_pages_do_not_hold_up_a_proxy_that_stops(staging):
    async with aiohttp.ClientSession() as http:
        async with staging(grace=30.0) as stage:
            answers = [await http.get(f"{stage.url}/ui/api/live") for _ in range(3)]
            for answer in answers:
                await anext(messages(answer))
            started = time.monotonic()
        assert time.monotonic() - started < 3
        for answer in answers:
            assert [message async for message in messages(answer)] == [], "it ended as a stream should"


async def test_nor_does_a_page_that_has_stopped_reading(staging):
    async with staging(grace=30.0) as stage:
        for number in range(300):
            key = Key("tenant", "local", "chat_completions", "m" * 50_000, str(number))
            stage.proxy.conversations.open(key, "root", Request("messages", {}, [b"{}"]))
        reader, writer = await asyncio.open_connection("127.0.0.1", URL(stage.url).port, limit=1024)
        writer.write(b"GET /ui/api/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"200 OK" in await reader.readline()
        await asyncio.sleep(0.3)
        started = time.monotonic()
    assert time.monotonic() - started < 5
    writer.close()
