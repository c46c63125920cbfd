"""Run a coroutine from ordinary code, whether or not this thread already has an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result. In a thread with a running loop (a notebook) another thread does the work."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    outcome: Future[T] = Future()

    def work() -> None:
        try:
            outcome.set_result(asyncio.run(coroutine))
        except BaseException as error:  # handed to the caller, whatever it is
            outcome.set_exception(error)

    threading.Thread(target=work, name="focusctx", daemon=True).start()
    return outcome.result()
