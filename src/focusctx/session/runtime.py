"""Run the same steps of a call in sync and async programs.

A call is a generator that yields everything it has to wait for. `ThreadRuntime` drives it in ordinary code,
`LoopRuntime` on an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future, wait
from contextlib import closing
from typing import Any, Protocol, TypeVar

from ..blocking import Background
from ..errors import StoreError


class Work(Protocol):
    """A running coroutine, as a task or on a thread of its own."""

    def cancel(self) -> object: ...


T = TypeVar("T")
W = TypeVar("W")
W_co = TypeVar("W_co", covariant=True)


class Runtime(Protocol[W_co]):
    """Starts work for a call. The call yields what `call` and `wait` return, to wait for it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that work runs on; None if work has a thread of its own."""

    @property
    def stopped(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that is blocked while a call waits here."""

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> Work: ...

    def call(self, function: Callable[[], Any]) -> W_co:
        """Call a function that blocks, on a thread if it would block an event loop."""

    def wait(self, future: Future[Any], seconds: float | None) -> W_co:
        """Wait until the future is settled, at most for that many seconds."""


class ThreadRuntime:
    """Runs calls in ordinary code, where each yielded object is a function that waits."""

    loop = None

    def __init__(self) -> None:
        self.stopped = running_loop()

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> Work:
        return Background(coroutine)

    def call(self, function: Callable[[], T]) -> Callable[[], T]:
        return function

    def wait(self, future: Future[Any], seconds: float | None) -> Callable[[], object]:
        return lambda: wait([future], seconds)

    def drive(self, steps: Generator[Callable[[], Any], Any, T]) -> T:
        """Run the steps to their end and return their result."""
        with closing(steps):
            try:
                work = next(steps)
                while True:
                    try:
                        brought = work()
                    except StoreError as error:
                        work = steps.throw(error)
                    else:
                        work = steps.send(brought)
            except StopIteration as end:
                found: T = end.value
                return found


class LoopRuntime:
    """Runs calls on an event loop. `on_a_thread` is the store's own way to call it, if it has one."""

    stopped = None

    def __init__(self, on_a_thread: Callable[[Callable[[], Any]], asyncio.Future[Any]] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self._on_a_thread = on_a_thread

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> Work:
        return self.loop.create_task(coroutine)

    def call(self, function: Callable[[], Any]) -> Awaitable[Any]:
        if self._on_a_thread is not None:
            return self._on_a_thread(function)
        return self.loop.run_in_executor(None, function)

    def wait(self, future: Future[Any], seconds: float | None) -> Awaitable[object]:
        return asyncio.wait([asyncio.wrap_future(future)], timeout=seconds)

    async def drive(self, steps: Generator[Awaitable[Any], Any, T]) -> T:
        """Run the steps to their end and return their result."""
        with closing(steps):
            try:
                work = next(steps)
                while True:
                    try:
                        brought = await work
                    except StoreError as error:
                        work = steps.throw(error)
                    else:
                        work = steps.send(brought)
            except StopIteration as end:
                found: T = end.value
                return found


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of this thread, or None if none is running."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
