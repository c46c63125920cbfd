"""Requests that cost the proxy far more than they cost their sender: others must hardly notice them.

The bounds in time and memory leave room for a busy machine. Before they were kept, the first attack here took 41 s,
kept `/healthz` waiting for 21 s and left 1.4 GB behind.
"""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from focusctx.proxy.request import MESSAGES
from helpers.raw_http import Raw, connect, eventually, exchange, proxy, raw_upstream, request
from helpers.served import CHAT, Served, serve

_STALL = 2.0
"""Seconds that a health check may take during an attack."""
_KEPT = 300
"""Megabytes that may be left behind."""


def messages(count: int, one: bytes = b'{"role":"user","content":"x"}') -> bytes:
    return b'{"model":"gpt-4.1","messages":[' + b",".join([one] * count) + b"]}"


def numbers() -> bytes:
    return messages(1, b'{"role":"user","content":[' + b",".join([b"1"] * 10_000_000) + b"]}")


def keys() -> bytes:
    return b'{"messages":[{}],' + b",".join(b'"%d":1' % number for number in range(2_000_000)) + b"}"


@asynccontextmanager
async def under_attack(home: Path) -> AsyncIterator[tuple[Raw, Served]]:
    """A proxy in a process of its own, whose health is looked at all the time."""
    options = ("--listen", "127.0.0.1:0", "--store", "memory", "--draft", "offline")
    async with raw_upstream() as up, serve(home, "--upstream", f"local={up.url}/v1", *options) as served:
        await exchange(served.url, "POST", CHAT, [], messages(3))  # loads what is loaded at first use
        before, waits = _memory(served), list[float]()
        watch = asyncio.create_task(_watch(served.url, waits))
        try:
            yield up, served
            await asyncio.sleep(0.2)
        finally:
            watch.cancel()
        assert max(waits) < _STALL
        assert _memory(served) - before < _KEPT


async def _watch(url: str, waits: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await exchange(url, "GET", "/healthz")
        waits.append(time.perf_counter() - began)
        await asyncio.sleep(0.02)


def _memory(served: Served) -> int:
    """Megabytes that a process holds."""
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) // 1024


async def test_two_million_messages_in_a_small_archive(tmp_path: Path) -> None:
    body = gzip.compress(messages(2_000_000), 9)
    assert len(body) < 200_000
    async with under_attack(tmp_path) as (up, served):
        began = time.perf_counter()
        headers = [("content-encoding", "gzip")]
        assert (await exchange(served.url, "POST", CHAT, headers, body)).status == 200
        assert time.perf_counter() - began < 10
        assert up.got[-1].body == body, "it goes up unread"
        assert up.got[-1]["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    "body",
    [lambda: messages(2_000_000), lambda: messages(20_000_000, b"{}"), numbers, keys],
    ids=["messages", "empty messages", "numbers in a message", "fields"],
)
async def test_more_values_than_any_agent_sends(tmp_path: Path, body: Callable[[], bytes]) -> None:
    sent = body()
    async with under_attack(tmp_path) as (up, served):
        began = time.perf_counter()
        assert (await exchange(served.url, "POST", CHAT, [], sent)).status == 200
        assert time.perf_counter() - began < 15
        assert up.got[-1].body == sent


@pytest.mark.parametrize("text", ["lorem ipsum, dolor ", "="])
async def test_one_text_of_many_megabytes(tmp_path: Path, text: str) -> None:
    content = text * (50_000_000 // len(text))
    body = json.dumps({"model": "gpt-4.1", "messages": [{"role": "user", "content": content}]}).encode()
    async with under_attack(tmp_path) as (up, served):
        assert (await exchange(served.url, "POST", CHAT, [], body)).status == 200
        assert up.got[-1].body == body


async def test_as_many_messages_as_are_read(tmp_path: Path) -> None:
    """A history at the bound is compressed as any other, and one beyond it is not kept in memory."""
    async with raw_upstream() as up, proxy(up.url) as (served, url):
        await exchange(url, "POST", CHAT, [], messages(MESSAGES + 1))
        await exchange(url, "POST", CHAT, [], messages(200_001, b"1"))
        assert len(served.conversations) == 0
        assert served.conversations.held_bytes == 0
        await exchange(url, "POST", CHAT, [], messages(MESSAGES))
        (live,) = served.conversations
        assert live.size > 500 * MESSAGES, "small messages take more memory than their bytes"
    assert len(up.got) == 3


async def test_a_client_that_leaves_while_its_request_is_read(tmp_path: Path) -> None:
    """A history that a thread is still reading is not given to the next request, which reads its own."""
    first = messages(1, json.dumps({"role": "user", "content": "some words, " * 400_000}).encode())
    async with raw_upstream() as up, proxy(up.url) as (served, url):
        async with await connect(url) as line:
            await line.send(request("POST", CHAT, [], first))
            await eventually(lambda: len(served.conversations) == 1)
            line.reset()
        assert (await exchange(url, "POST", CHAT, [], first)).status == 200
        live = next(iter(served.conversations))  # the one used last
        assert live.conversation is not None
        assert live.conversation.size[0] > 400_000
    assert up.got[-1].body == first
