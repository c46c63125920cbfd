"""Programs in another interpreter: calls, questions back, and every way in which they can end."""

import asyncio
import gc
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.errors import BenchError, ModelError
from focusctx_bench.benchmarks.worker import SERVING, Worker

HANDLERS = """
import os, subprocess, sys, threading
released = threading.Event()

def echo(ask, value): return value
def twice(ask, value): return [ask(value), ask(value)]
def fail(ask): raise ValueError("no such thing")
def noise(ask):
    print("noise"); os.system("echo more noise"); return "quiet"
def die(ask):
    print("last words", file=sys.stderr, flush=True); os._exit(3)
def hang(ask):
    try: ask("anybody?")
    finally: released.set()
def was_released(ask): return released.wait(10)
def process(ask): return os.getpid()
def path(ask): return sys.path
def name(ask, answer, do): return [answer, do]

HANDLERS = {name: value for name, value in list(globals().items()) if callable(value)}
"""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def start(folder: Path) -> Worker:
    inside = folder / "inside.py"
    inside.write_text(HANDLERS, encoding="utf-8")
    return Worker("the program", [sys.executable, str(SERVING), str(inside)], os.environ)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = start(tmp_path)
    yield worker
    worker.close()


def test_any_value_goes_there_and_back(tmp_path: Path) -> None:
    worker = start(tmp_path)

    @given(json_values)
    def unchanged(value: Any) -> None:  # each in an event loop of its own: the worker belongs to none
        assert asyncio.run(worker.call("echo", {"value": value})) == value

    unchanged()
    worker.close()


async def test_a_handler_asks_back(worker: Worker) -> None:
    async def answer(what: Any) -> Any:
        return what + 1

    assert await worker.call("twice", {"value": 1}, answer) == [2, 2]


async def test_calls_go_side_by_side(worker: Worker) -> None:
    first, second = asyncio.Event(), asyncio.Event()

    async def answer(what: Any) -> Any:
        mine, other = (first, second) if what == "a" else (second, first)
        mine.set()
        await asyncio.wait_for(other.wait(), 10)  # each is answered only once the other has asked
        return what * 2

    calls = [worker.call("twice", {"value": value}, answer) for value in ("a", "b")]
    assert await asyncio.gather(*calls) == [["aa", "aa"], ["bb", "bb"]]


async def test_arguments_may_have_any_name(worker: Worker) -> None:
    assert await worker.call("name", {"answer": 1, "do": 2}) == [1, 2]


async def test_what_is_printed_is_no_answer(worker: Worker) -> None:
    assert await worker.call("noise", {}) == "quiet"


async def test_neighbours_of_the_serving_file_are_no_modules(worker: Worker) -> None:
    assert str(SERVING.parent) not in await worker.call("path", {})


async def test_a_handlers_error_is_told_and_the_program_goes_on(worker: Worker) -> None:
    with pytest.raises(BenchError, match="the program: ValueError: no such thing"):
        await worker.call("fail", {})
    with pytest.raises(BenchError, match="KeyError: 'nonsense'"):
        await worker.call("nonsense", {})
    assert await worker.call("echo", {"value": 1}) == 1


async def test_a_question_nobody_answers(worker: Worker) -> None:
    with pytest.raises(BenchError, match="nobody answers"):
        await worker.call("twice", {"value": 1})


async def test_the_error_of_the_one_who_was_asked_comes_through(worker: Worker) -> None:
    async def answer(what: Any) -> Any:
        raise ModelError("no credit")

    with pytest.raises(ModelError, match="no credit"):
        await worker.call("twice", {"value": 1}, answer)
    assert worker.is_alive


async def test_a_program_that_ends_says_why_to_all_who_wait(worker: Worker) -> None:
    asked = asyncio.Event()

    async def answer(what: Any) -> Any:
        asked.set()
        await asyncio.sleep(0.5)

    waiting = asyncio.create_task(worker.call("twice", {"value": 1}, answer))
    await asked.wait()
    with pytest.raises(BenchError, match="the program: the program ended: last words"):
        await worker.call("die", {})
    with pytest.raises(BenchError, match="last words"):
        await waiting
    with pytest.raises(BenchError, match="last words"):
        await worker.call("echo", {"value": 1})
    assert not worker.is_alive


def test_a_program_that_does_not_start() -> None:
    with pytest.raises(BenchError, match="/nowhere/python could not be started"):
        Worker("the program", ["/nowhere/python"], {})


async def test_a_cancelled_call_lets_its_handler_end(worker: Worker) -> None:
    asked = asyncio.Event()

    async def answer(what: Any) -> Any:
        asked.set()
        await asyncio.sleep(60)

    call = asyncio.create_task(worker.call("hang", {}, answer))
    await asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await worker.call("was_released", {}) is True


async def test_the_program_ends_with_the_last_who_holds_it(tmp_path: Path) -> None:
    worker = start(tmp_path)
    process = await worker.call("process", {})
    os.kill(process, 0)
    del worker
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("focusctx_bench.benchmarks.worker._PATIENCE", 0.2)
    worker = Worker("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"], os.environ)
    began = time.monotonic()
    worker.close()
    assert time.monotonic() - began < 10
    assert not worker.is_alive
