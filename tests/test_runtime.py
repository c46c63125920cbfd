import asyncio
import contextvars
import time

import pytest

from focusctx.runtime import Background, run

label: contextvars.ContextVar[str] = contextvars.ContextVar("label", default="none")


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_gives_the_result_or_the_error() -> None:
    async def fail() -> None:
        raise KeyError("x")

    assert run(double(4)) == 8
    with pytest.raises(KeyError):
        run(fail())


async def test_works_beside_a_running_loop() -> None:
    assert run(double(4)) == 8


def test_the_callers_context_goes_along() -> None:
    async def read() -> str:
        return label.get()

    label.set("mine")
    assert run(read()) == "mine"


def test_a_hung_thread_of_the_loop_does_not_hold_up_the_result() -> None:
    async def leave_a_thread_behind() -> int:
        asyncio.get_running_loop().run_in_executor(None, time.sleep, 1.5)
        return 1

    started = time.perf_counter()
    assert run(leave_a_thread_behind()) == 1
    assert time.perf_counter() - started < 1


def test_cancelled_work_stops() -> None:
    stopped = []

    async def wait() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            stopped.append(True)

    work = Background(wait())
    time.sleep(0.05)
    assert not work.done()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        work.result()
    assert stopped == [True]
