"""A soak: mixed traffic with faults, for as long as `FOCUSCTX_SOAK` says, and nothing piles up in the process.

`scripts/soak` runs it for ten minutes.
"""

import asyncio
import json
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from helpers.histories import Messages, step
from helpers.raw_http import OK, STREAM, Head, Line, connect, eventually, exchange, proxy, raw_upstream, request

SECONDS = float(os.environ.get("FOCUSCTX_SOAK", "80"))
WORKERS = 12
WARM = 1500
"""Pieces of work after which the proxy holds all that it will hold."""
IDLE = 33.0
"""Seconds after which no idle connection is left, on either side."""
CONVERSATIONS = 8
"""As many as there are at once; each is begun anew again and again, so that what is remembered of them has an end."""
CHAT = "/v1/chat/completions"
KEY = ("authorization", "Bearer k")
_TEXT = "the ledger says that lot KX-{} was moved to bay {} by somebody who did not sign for it. "


def history(name: int, steps: int) -> bytes:
    start: Messages = [{"role": "system", "content": "You help."}, {"role": "user", "content": f"Do task {name}."}]
    chance = random.Random(name)
    for number in range(1, steps + 1):
        text = "".join(_TEXT.format(chance.randrange(9999), chance.randrange(99)) for _ in range(8))
        start += step(number, text)
    return json.dumps({"model": "gpt-4.1", "messages": start, "stream": True}).encode()


async def answer(line: Line, head: Head) -> bool:
    """The provider: does what the path asks for."""
    target = head.target
    if "hang-up" in target:
        return True
    await line.body(head)
    if "/json" in target:
        await line.send(OK)
        return False
    if "garbage" in target:
        await line.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nwhat?\r\n")
        return True
    await line.send(STREAM)
    for number in range(20):
        await line.chunk(b"data: %d\n\n" % number)
        if "reset" in target and number == 5:
            line.reset()
            return True
        if "slow" in target:
            await asyncio.sleep(0.01)
    await line.send(b"0\r\n\r\n")
    return False


class Agents:
    """What goes through the proxy."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.done: Counter[str] = Counter()
        self._chance = random.Random(7)

    async def work(self, until: float, least: int = 0) -> None:
        """Go on until a time, and until so much work is done: a loaded machine takes longer for it."""
        kinds: list[Callable[[], Awaitable[None]]] = [self.converse] * 6
        kinds += [self.leave, self.broken, self.nonsense, self.upload, self.small, self.two_at_once]
        while time.monotonic() < until or self.done.total() < least or len(self.done) < len(set(kinds)):
            kind = self._chance.choice(kinds)
            await asyncio.wait_for(kind(), 20)
            self.done[kind.__name__] += 1

    async def converse(self) -> None:
        name = self._chance.randrange(CONVERSATIONS)
        for steps in range(4, 40, 6):
            got = await exchange(self.url, "POST", CHAT, [KEY], history(name, steps))
            assert got.body.startswith(b"data: 0")

    async def two_at_once(self) -> None:
        body = history(self._chance.randrange(CONVERSATIONS), 30)
        await asyncio.gather(*(exchange(self.url, "POST", CHAT, [KEY], body) for _ in range(2)))

    async def leave(self) -> None:
        async with await connect(self.url) as line:
            path = self._chance.choice(["/slow", CHAT])
            await line.send(request("POST", path, [KEY], history(self._chance.randrange(CONVERSATIONS), 20)))
            if self._chance.random() < 0.7:
                await line.head()
            line.reset()

    async def broken(self) -> None:
        async with await connect(self.url) as line:
            await line.send(request("POST", self._chance.choice(["/reset", "/garbage", "/hang-up"]), [], b"{}"))
            head = await line.head()
            assert head.status in (200, 502)
            rest = await (line.body(head) if head.status == 502 else line.ended())
            assert not rest.endswith(b"0\r\n\r\n")

    async def nonsense(self) -> None:
        body = self._chance.randbytes(3000)
        got = await exchange(self.url, "POST", f"{CHAT}?/json", [("content-encoding", "gzip")], body)
        assert got.status == 200

    async def upload(self) -> None:
        assert (await exchange(self.url, "POST", "/json/files", [], bytes(2_000_000))).status == 200

    async def small(self) -> None:
        assert (await exchange(self.url, "GET", "/json/models")).status == 200


def resident(pid: int) -> float:
    """MiB of memory that a process holds."""
    return int(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0]) / 1024


def files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@asynccontextmanager
async def serving(upstream: str, home: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    options = ["--upstream", f"one={upstream}", "--listen", "127.0.0.1:0", "--budget", "3000"]
    log = home / "log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "focusctx", "serve", *options),
            stderr=file,
            env={**os.environ, "XDG_DATA_HOME": str(home)},
        )
    try:
        assert await eventually(lambda: "dashboard" in log.read_text(), 15)
        yield process, re.findall(r"listens on (\S+)", log.read_text())[0]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.slow
async def test_nothing_piles_up(tmp_path: Path) -> None:
    async with raw_upstream(answer) as up, serving(up.url, tmp_path) as (process, url):
        agents = Agents(url)
        await asyncio.gather(*(agents.work(time.monotonic() + SECONDS / 2, WARM) for _ in range(WORKERS)))
        warm, at_rest = resident(process.pid), await _files_at_rest(process.pid, url)
        await asyncio.gather(*(agents.work(time.monotonic() + SECONDS / 2) for _ in range(WORKERS)))
        size = resident(process.pid)
        print(f"{sum(agents.done.values())} pieces of work: {dict(agents.done)}")
        print(f"memory after the first half {warm:.1f} MiB, at the end {size:.1f} MiB; files at rest: {at_rest}")
        assert await eventually(lambda: files(process.pid) <= at_rest + 2, IDLE)
        metrics = (await exchange(url, "GET", "/metrics")).body.decode()
        assert "focusctx_requests_open 0.0" in metrics
        assert float(re.findall(r"focusctx_tokens_saved_total (\d\S*)", metrics)[0]) > 0
        assert size - warm < 0.06 * warm, "memory is flat"
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


async def _files_at_rest(pid: int, url: str) -> int:
    """Open files when there is nothing to do: the fewest seen until all idle connections are let go of."""
    fewest, end = files(pid), time.monotonic() + IDLE
    while time.monotonic() < end:
        await asyncio.sleep(0.1)
        fewest = min(fewest, files(pid))
    assert (await exchange(url, "GET", "/healthz")).status == 200
    return fewest


@pytest.mark.slow
async def test_no_task_is_left_after_a_burst_of_faults(tmp_path: Path, nothing_left: None) -> None:
    """The same traffic with the proxy in this very loop, where its tasks and sockets can be counted."""
    store = f"sqlite:///{tmp_path / 'focus.db'}"
    async with raw_upstream(answer) as up, proxy(up.url, store=store) as (served, url):
        agents = Agents(url)
        await asyncio.gather(*(agents.work(time.monotonic() + 3) for _ in range(WORKERS)))
        assert await eventually(lambda: b"focusctx_requests_open 0.0" in served.metrics.text())
    assert agents.done["broken"] > 0
    assert agents.done["leave"] > 0
