"""Run coroutines from ordinary code, whether or not this thread already has an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")


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
