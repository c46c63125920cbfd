"""How one call waits, written once for sync and async programs.

A call is a generator that yields whatever has to be waited for. `Threads` drives it in ordinary code, `Tasks` on an
event loop.
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
    """A coroutine at work, as a task or on a thread of its own."""

    def cancel(self) -> object: ...


T = TypeVar("T")
W = TypeVar("W")
W_co = TypeVar("W_co", covariant=True)


class World(Protocol[W_co]):
    """Where a call runs: it starts work here, and yields what `call` and `wait` return to wait for it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that work runs on; None where it has a thread of its own."""

    @property
    def stopped(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that stands still while a call waits here."""

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> Work: ...

    def call(self, function: Callable[[], Any]) -> W_co:
        """Call a function that blocks, on a thread where others would have to wait for it."""

    def wait(self, future: Future[Any], seconds: float | None) -> W_co:
        """Wait until the future is settled, or for so many seconds."""


class Threads:
    """Ordinary code. What is yielded is a function that waits."""

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
        """Run the steps to their end and return what they return."""
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


class Tasks:
    """An event loop. `on_a_thread` is how the store wants to be asked, where it cares."""

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
        """Run the steps to their end and return what they return."""
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
    """The event loop of this thread, if one is running."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
