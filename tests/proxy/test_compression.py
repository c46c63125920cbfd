"""Threads for large requests: a caller waits for its thread, and gives up if none is free."""

import asyncio
import threading
import time

import pytest

from focusctx.proxy import compression
from focusctx.proxy.compression import Busy, WorkerThreads


async def test_a_cancelled_caller_waits_for_the_thread() -> None:
    work, ended, started = WorkerThreads(), threading.Event(), threading.Event()

    def slow() -> None:
        started.set()
        time.sleep(0.3)
        ended.set()

    caller = asyncio.create_task(work.on_thread(1, slow))
    await asyncio.to_thread(started.wait)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended.is_set(), "it could be changing what the next caller uses"
    work.close()


async def test_who_finds_no_thread_gives_up_and_small_work_has_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_WAIT", 0.2)
    work, huge = WorkerThreads(), 100 << 20
    first = asyncio.create_task(work.on_thread(huge, lambda: time.sleep(0.8)))
    await asyncio.sleep(0.05)
    with pytest.raises(Busy):
        await work.on_thread(huge, lambda: None)
    assert await work.run(2 << 20, lambda: "done") == "done"
    assert await first is None, "what runs is waited for, however long it takes"
    work.close()


async def test_errors_come_back_from_the_thread() -> None:
    work = WorkerThreads()
    with pytest.raises(ZeroDivisionError):
        await work.run(2 << 20, lambda: 1 / 0)
    work.close()
