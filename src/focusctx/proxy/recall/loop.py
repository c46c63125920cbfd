"""Run the rounds of a turn, streamed or not.

The last round that the limit allows is requested without the tool. If the model calls it anyway, the call is not
answered: the agent sees the rest of the answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Generic, Protocol, TypeAlias, TypeVar

from ...session.recall import unavailable
from ...types import Message
from .turn import Turn

_log = logging.getLogger("focusctx.proxy")

ROUNDS = 3
"""Most times that the provider is asked again in one turn."""
_SILENCE = 10.0
"""Seconds without output after which the agent is sent a sign of life."""


class Answer(Protocol):
    """A provider's answer with an uncompressed body."""

    @property
    def ok(self) -> bool: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...


A = TypeVar("A", bound=Answer)
A_co = TypeVar("A_co", bound=Answer, covariant=True)
Recall: TypeAlias = Callable[[str], Awaitable[str]]


class AskAgain(Protocol[A_co]):
    def __call__(self, extra: list[Message], *, offer_tool: bool) -> AbstractAsyncContextManager[A_co]:
        """Send the agent's request again with `extra` after its own messages, with or without the recall tool."""


class Refused(Exception, Generic[A]):
    """The provider refused a later round before the agent was shown anything: the refusal can be forwarded as it is."""

    def __init__(self, answer: A, body: bytes) -> None:
        super().__init__("a later round was refused")
        self.answer = answer
        self.body = body


async def stream(
    turn: Turn, first: A, ask_again: AskAgain[A], recall: Recall, *, rounds: int = ROUNDS
) -> AsyncGenerator[bytes, None]:
    """Yield what the agent gets.

    If the first round breaks off, so does this stream, as it would without the proxy. If a later round fails, the
    stream ends with an error event as the provider writes it, or with `Refused` for a refusal before anything was
    shown.
    """
    answer, shown_at, silent = first, time.monotonic(), True
    async with AsyncExitStack() as held_open:
        for left in range(rounds, -1, -1):
            try:
                async for chunk in answer:
                    shown = turn.feed(chunk)
                    if not shown and time.monotonic() - shown_at > _SILENCE:
                        shown = turn.keep_alive()
                    if shown:
                        yield shown
                        shown_at, silent = time.monotonic(), False
            except Exception:
                if answer is first:
                    raise
                _log.warning("the answer after a recall broke off", exc_info=True)
                yield turn.fail(b"")
                return
            ending = turn.end(last=not left)
            if ending.rest:
                yield ending.rest
                silent = False
            if not ending.queries:
                return
            extra = turn.answer([await _recalled(recall, query) for query in ending.queries])
            try:
                answer = await held_open.enter_async_context(ask_again(extra, offer_tool=left > 1))
                refusal = None if answer.ok else await _body(answer)
            except Exception:
                _log.warning("asking again after a recall failed", exc_info=True)
                yield turn.fail(b"")
                return
            if refusal is not None:
                if silent:
                    raise Refused(answer, refusal)
                yield turn.fail(refusal)
                return


async def whole(
    turn: Turn, first: A, ask_again: AskAgain[A], recall: Recall, *, rounds: int = ROUNDS
) -> tuple[A, bytes]:
    """Return the answer whose status and headers the agent gets, and the body for it.

    That is the last answer, or the refusal of a later round. Exceptions of `ask_again` are passed on.
    """
    answer = first
    async with AsyncExitStack() as held_open:
        for left in range(rounds, -1, -1):
            body = await _body(answer)
            if not answer.ok:
                break
            ending = turn.whole(body, last=not left)
            if not ending.queries:
                return answer, ending.rest
            extra = turn.answer([await _recalled(recall, query) for query in ending.queries])
            answer = await held_open.enter_async_context(ask_again(extra, offer_tool=left > 1))
        return answer, body


async def _recalled(recall: Recall, query: str) -> str:
    try:
        return await recall(query)
    except Exception:
        _log.exception("recall failed")
        return unavailable(query)


async def _body(answer: Answer) -> bytes:
    return b"".join([chunk async for chunk in answer])
