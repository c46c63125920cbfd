"""FOCUS as a method, and controls that choose turns in another way at the tokens that FOCUS sends.

`focus` is what `Focus` and a session do by default. `focus-d` and `focus-o` follow the paper: every history over budget
leads to an event, no sketches are requested ahead of time, and dropped turns are gone.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ..compressor import Focus
from ..config import FocusConfig, SessionOptions
from ..drafts.registry import draft_from, price_of_draft
from ..pipeline.split import RecentHistories
from ..session.session import Session
from ..types import DraftModel, History, Message, Prompt, Reply, Span, Usage
from .drafts import Writer
from .method import Choice, Compressed, Method, Turnwise, droppable

Rank: TypeAlias = Callable[[History, Sequence[Span]], Awaitable[tuple[Sequence[Span], Usage]]]
"""Ranks older turns, the one to keep first at the front; also returns the usage of ranking them."""

_FAILURES = frozenset({"draft", "illegal", "store", "error"})


class DefaultFocus:
    """`focus`: the default settings of `Focus` and of its session, except those in `settings`."""

    name = "focus"

    def __init__(self, draft: Writer, budget: int = 4096, settings: Mapping[str, Any] | None = None) -> None:
        """`settings` are fields of `FocusConfig` and options of `Focus.session`, by name."""
        given = {"budget": budget, **(settings or {})}
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}  # JSON
        options: Any = {name: given.pop(name) for name in list(given) if name in SessionOptions.__annotations__}
        self._draft = _Metered(draft_from(draft))
        self.session = Focus(self._draft, **given).session(**options)

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        compressed = await compressed_by(self.session, messages, "chat_completions")
        # Sketches are asked for ahead of time, and some are never used: all of them cost tokens.
        return replace(compressed, usage=self._draft.take_usage())


class _Metered:
    """A draft that counts the usage of all its answers."""

    def __init__(self, draft: DraftModel) -> None:
        self.name = draft.name
        self._draft = draft
        self.endpoint = getattr(draft, "endpoint", None)
        self.instant = getattr(draft, "instant", False)
        self._price = price_of_draft(draft)
        self._usage = Usage()

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        async for reply in self._draft.sample(prompt, n):
            usage = reply.usage
            if usage.input_tokens + usage.output_tokens:
                cost = self._price.cost(usage.input_tokens, usage.output_tokens) if self._price else None
                usage = replace(usage, cost=cost)
            self._usage += usage
            yield reply

    def take_usage(self) -> Usage:
        """Return the usage since this was last called."""
        usage, self._usage = self._usage, Usage()
        return usage


class FocusMethod:
    """`focus-d`, or `focus-o` where `defensive` is False."""

    def __init__(
        self,
        draft: Writer,
        budget: int = 4096,
        *,
        rollouts: int = 3,
        threshold: float = 0.3,
        defensive: bool = True,
        deadline: float = 30.0,
    ) -> None:
        self.name = "focus-d" if defensive else "focus-o"
        config = FocusConfig.paper(
            budget=budget, rollouts=rollouts, threshold=threshold, defensive=defensive, deadline=deadline
        )
        # Its own Focus, not one for all runs: a draft that fails in one run is left alone for a while in that run only.
        self._session = Focus(draft, config=config).session(ahead=1.0, growth=0.0)

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        return await compressed_by(self._session, messages, "chat_completions")


async def compressed_by(session: Session, messages: Sequence[Message], format: str) -> Compressed:
    """Return what a session sends at one step."""
    session.events.clear()
    view = await session.aview(messages, format=format)
    events = list(session.events)
    happened = any(event.happened for event in events)
    failed = [] if happened else [event for event in events if event.cause in _FAILURES]
    rollouts = session.focus.config.rollouts
    return Compressed(
        view,
        happened=happened,
        usage=sum((event.result.usage for event in events if event.result), Usage()),
        failure=failed[0].why if failed else None,
        # Sketches that are not plans are the draft's fault, and so the method's.
        unanswered=any(event.result and len(event.result.sketches) < rollouts for event in failed),
    )


class Matched(Turnwise):
    """A control for FOCUS: whole turns chosen in another way, at the tokens that FOCUS sends at the same event.

    FOCUS runs beside the method on the same history. Whenever it has an event, the method drops turns until it saves at
    least as many tokens. `rank` decides which ones stay: by chance, by age, or by similarity to the newest turn. What
    was dropped stays dropped.
    """

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
