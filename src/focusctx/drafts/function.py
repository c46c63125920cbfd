"""Use any function from a prompt to a text, sync or async, as a draft."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

from ..errors import DraftError
from ..types import Prompt, Reply, Usage
from .http import as_they_come


class FunctionDraft:
    """Calls `fn(prompt)` once for each reply, all in parallel; the calls differ only in `prompt.seed`.

    A sync function runs in separate threads: one that hangs cannot be stopped, but nothing waits for it.
    """

    def __init__(self, fn: Callable[[Prompt], str | Awaitable[str]], name: str | None = None) -> None:
        self._fn = fn
        self._name = name or f"function:{getattr(fn, '__name__', type(fn).__name__)}"

    @property
    def name(self) -> str:
        return self._name

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        calls = (self._call(replace(prompt, seed=prompt.seed + k)) for k in range(n))
        async with aclosing(as_they_come(calls)) as replies:
            async for reply in replies:
                yield reply

    async def _call(self, prompt: Prompt) -> Reply:
        text = await self._outcome(prompt)
        if isinstance(text, DraftError):
            raise text
        if isinstance(text, BaseException):
            raise DraftError(f"draft {self.name} raised {type(text).__name__}: {text}") from text
        if not isinstance(text, str):
            raise DraftError(f"draft {self.name} returned {type(text).__name__}, not str")
        # A function does not report what it spends: the cost is unknown, not zero.
        return Reply(text, Usage(requests=1, cost=None))

    async def _outcome(self, prompt: Prompt) -> Any:
        """Return the function's result, or the exception it raised."""
        try:
            result = self._fn(prompt) if _is_async(self._fn) else await _in_daemon_thread(self._fn, prompt)
            return await result if inspect.isawaitable(result) else result
        except Exception as error:
            return error


def _is_async(fn: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)


async def _in_daemon_thread(fn: Callable[[Prompt], Any], prompt: Prompt) -> Any:
    """Return the result of `fn`, or the exception it raised (a future does not take every exception).

    The loop's executor is not used: `asyncio.run` joins it at the end, so one hanging call would block the agent
    for ever, despite the deadline.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(value: Any) -> None:
        if not outcome.done():  # cancelled: the caller has gone
            outcome.set_result(value)

    def work() -> None:
        value: Any
        try:
            value = context.run(fn, prompt)
        except BaseException as error:
            value = error
        with suppress(RuntimeError):  # the loop is closed: nothing waits for the result
            loop.call_soon_threadsafe(deliver, value)

    threading.Thread(target=work, name="focusctx-draft", daemon=True).start()
    return await outcome
