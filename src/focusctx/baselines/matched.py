"""Controls for FOCUS: whole turns chosen in another way, at the tokens that FOCUS sends at the same event.

FOCUS runs beside the method on the same history. Whenever it has an event, the method drops turns until it saves at
least as many tokens. Which ones stay is decided by chance, by age, or by similarity to the newest turn. What was
dropped stays dropped.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..config import FocusConfig
from ..pipeline.split import RecentHistories
from ..types import History, Message, Span, Usage
from .method import Compressed, Method
from .turnwise import Choice, Turnwise, droppable

Rank: TypeAlias = Callable[[History, Sequence[Span]], Awaitable[tuple[Sequence[Span], Usage]]]
"""Sorts older turns, the one to keep first at the front, and returns the usage of ranking them."""


class Matched(Turnwise):
    def __init__(self, name: str, focus: Method, rank: Rank) -> None:
        super().__init__()
        self.name = name
        self._focus = focus
        self._rank = rank
        self._sizes = RecentHistories(FocusConfig(), self.count)
        self._gone: frozenset[int] = frozenset()
        self._due: int | None = None
        """Tokens that FOCUS saves of the whole history, at a step where it has an event."""

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        by_focus = await self._focus.compress(messages)
        self._due = self._size(messages) - self._size(by_focus.messages) if by_focus.happened else None
        compressed = await super().compress(messages)
        return replace(
            compressed,
            usage=by_focus.usage + compressed.usage,
            failure=compressed.failure or (None if compressed.happened else by_focus.failure),
            unanswered=by_focus.unanswered or compressed.unanswered,
        )

    async def choose(self, history: History) -> Choice | None:
        usage = Usage()
        if self._due is not None:
            older = [span for span in droppable(history) if span.index not in self._gone]
            gone = sum(span.tokens for span in history.spans if span.index in self._gone)
            room = sum(span.tokens for span in older) - (self._due - gone)
            ranked, usage = await self._rank(history, older)
            kept = _fitting(ranked, room)
            self._gone |= {span.index for span in older} - kept
        if not self._gone:
            return None
        return Choice([span.index for span in history.spans if span.index not in self._gone], usage=usage)

    def _size(self, messages: Sequence[Message]) -> int:
        return self._sizes.read(messages, "chat_completions").tokens


def _fitting(ranked: Sequence[Span], room: int) -> set[int]:
    """Return the turns that fit, taken in order; one that is too large is passed over."""
    kept: set[int] = set()
    for span in ranked:
        if span.tokens <= room:
            kept.add(span.index)
            room -= span.tokens
    return kept


def at_random(seed: int = 42) -> Rank:
    """Rank turns by chance: the same way for the same task, step and seed."""

    async def rank(history: History, older: Sequence[Span]) -> tuple[Sequence[Span], Usage]:
        chance = random.Random(f"{seed} {history.newest} {history.goal}")
        return chance.sample(list(older), len(older)), Usage()

    return rank


async def newest_first(history: History, older: Sequence[Span]) -> tuple[Sequence[Span], Usage]:  # noqa: ARG001
    return older[::-1], Usage()
