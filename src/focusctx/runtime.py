"""Run the same code in sync and async programs.

`run` and `Background` run a coroutine from ordinary code, whether or not this thread already has an event loop.

A call of a session is a generator that yields everything it has to wait for. `ThreadRuntime` drives it in ordinary
code, `LoopRuntime` on an event loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future, wait
from contextlib import closing
from typing import Any, Generic, Protocol, TypeVar

from .errors import StoreError

T = TypeVar("T")
W = TypeVar("W")
W_co = TypeVar("W_co", covariant=True)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine to its end and return its result."""
    return Background(coroutine).result()


class Background(Generic[T]):
    """A coroutine running on a daemon thread with its own event loop.

    The result is delivered before the loop is closed: a hung name lookup delays the closing, and must not delay the
    agent.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._outcome: Future[T] = Future()
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._work(coroutine))
        context = contextvars.copy_context()  # the thread inherits the caller's traces and log fields
        threading.Thread(target=context.run, args=(self._drive,), name="focusctx", daemon=True).start()

    def done(self) -> bool:
        return self._outcome.done()

    def result(self) -> T:
        return self._outcome.result()

    def cancel(self) -> None:
        """Stop soon; the result is no longer wanted."""
        if not self._outcome.done():
            self._loop.call_soon_threadsafe(self._task.cancel)

    async def _work(self, coroutine: Coroutine[Any, Any, T]) -> None:
        try:
            self._outcome.set_result(await coroutine)
        except BaseException as error:  # passed on to the waiting thread
            self._outcome.set_exception(error)

    def _drive(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._task)
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()


class Work(Protocol):
    """A running coroutine, as a task or on a thread of its own."""

    def cancel(self) -> object: ...


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
