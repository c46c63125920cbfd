"""Asking again: the rounds of a turn, streamed and not.

The last round the bound allows is asked for without the tool. A model that calls it all the same is not answered:
the agent sees the rest of what it said.
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
"""How often the provider is asked again in one turn."""
_SILENCE = 10.0
"""Seconds after which an agent that is shown nothing hears that we are there."""


class Answer(Protocol):
    """A provider's answer, its body not compressed."""

    @property
    def ok(self) -> bool: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...


A = TypeVar("A", bound=Answer)
A_co = TypeVar("A_co", bound=Answer, covariant=True)
Recall: TypeAlias = Callable[[str], Awaitable[str]]


class AskAgain(Protocol[A_co]):
    def __call__(self, extra: list[Message], *, offer_tool: bool) -> AbstractAsyncContextManager[A_co]:
        """Send the agent's request again with these messages after its own, with or without the recall tool."""


class Refused(Exception, Generic[A]):
    """The provider refused a later round, and the agent has been shown nothing yet: it can be told as it is."""

    def __init__(self, answer: A, body: bytes) -> None:
        super().__init__("a later round was refused")
        self.answer = answer
        self.body = body


async def stream(
    turn: Turn, first: A, ask_again: AskAgain[A], recall: Recall, *, rounds: int = ROUNDS
) -> AsyncGenerator[bytes, None]:
    """What the agent gets.

    If the first round breaks off, so does this, as it would have without us. If a later one does, the stream ends
    with the provider's own error event, or with `Refused` where nothing was shown before.
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
    """The body for the agent, and the answer whose status and headers go with it.

    That is the last one; where a later round was refused, the refusal. What `ask_again` raises is passed on.
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
