"""The bounds of one request: what is counted, what is not, and who waits for the threads."""

import asyncio
import json
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.proxy import limits
from focusctx.proxy.limits import Busy, Work, has_too_many_values, unpacked_limit

TEXTS = [",", '","', '\\","', "\\", "\\\\,", 'a "quoted, word", and \\', "\n,\t", "é,ü", '{"a": [1, 2, 3]}']


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_stands_in_strings_does_not_count(text: str, ascii_only: bool) -> None:
    few = [{"role": "user", "content": text * 300_000}, {"role": "user", "content": text}]
    assert not has_too_many_values(json.dumps(few, ensure_ascii=ascii_only).encode())
    many = [text] * (limits.VALUES + 2)
    assert has_too_many_values(json.dumps(many, ensure_ascii=ascii_only).encode())


@given(st.lists(st.text(alphabet='\\",a ', max_size=6), max_size=30), st.integers(1, 40))
def test_the_bound_is_exact_for_a_list(texts: list[str], bound: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "VALUES", bound)
        assert has_too_many_values(json.dumps(texts).encode()) == (len(texts) > bound)


def test_a_body_may_unpack_to_a_hundred_times_its_size() -> None:
    assert unpacked_limit(100, 64 << 20) == 1 << 20
    assert unpacked_limit(100_000, 64 << 20) == 10_000_000
    assert unpacked_limit(10_000_000, 64 << 20) == 64 << 20


async def test_a_cancelled_caller_waits_for_the_thread() -> None:
    work, ended, started = Work(), threading.Event(), threading.Event()

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
    monkeypatch.setattr(limits, "_PATIENCE", 0.2)
    work, huge = Work(), 100 << 20
    first = asyncio.create_task(work.on_thread(huge, lambda: time.sleep(0.8)))
    await asyncio.sleep(0.05)
    with pytest.raises(Busy):
        await work.on_thread(huge, lambda: None)
    assert await work.run(2 << 20, lambda: "done") == "done"
    assert await first is None, "what runs is waited for, however long it takes"
    work.close()


async def test_errors_come_back_from_the_thread() -> None:
    work = Work()
    with pytest.raises(ZeroDivisionError):
        await work.run(2 << 20, lambda: 1 / 0)
    work.close()
