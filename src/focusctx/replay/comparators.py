"""Comparators that get, at every step, as many span tokens as another method left there.

Spans cannot be split, and the limit mostly falls within one. That span is kept with a probability that is the share of
it that fits, by a draw that depends on its words alone: over many steps a comparator gets as many tokens as the other
method. Masking keeps every thought and action, so it cannot go below a certain size; steps at which that exceeds the
limit are listed in `floored`.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from ..baselines.embedders import Embed
from ..baselines.method import Choice, NoChoice, Turnwise, turn_as_text
from ..baselines.rules import Retrieval
from ..pipeline.must_stay import leaders_of, pinned_spans
from ..types import History, Span, Usage
from ..wire import blanked, wire_named
from .runs import part_tokens

Quotas: TypeAlias = Mapping[int, int]
"""Tokens of spans allowed at each step, by its newest span; a step without an entry keeps all."""

Order: TypeAlias = Callable[[History], Awaitable[tuple[Sequence[int], Usage]]]
"""The spans of a history in the order in which they are kept, and the usage of ordering them."""

COMPARATORS = ("fifo", "retrieval", "masking")


class Comparator(Turnwise):
    """Takes spans in an order until its quota is full."""

    def __init__(self, name: str, quotas: Quotas, order: Order, *, masks: bool = False) -> None:
        super().__init__()
        self.name = name
        self._quotas = quotas
        self._order = order
        self._masks = masks
        self.floored: set[int] = set()
        """The newest spans of the steps at which even the smallest choice exceeded the quota."""

    async def choose(self, history: History) -> Choice | None:
        quota = self._quotas.get(history.newest)
        if quota is None:
            return None
        rest = {span.index: _masked_size(span) if self._masks else 0 for span in history.spans}
        kept = _closed(history, pinned_spans(history, None))
        if _tokens(history, kept, rest) > quota:
            self.floored.add(history.newest)
        order, usage = await self._order(history)
        texts = {span.index: turn_as_text(span) for span in history.spans}
        for index in order:
            more = _closed(history, {*kept, index})
            before, after = _tokens(history, kept, rest), _tokens(history, more, rest)
            if after > quota and quota - before <= _draw(texts[index]) * (after - before):
                break
            kept = more
        return Choice(kept, masked=self._masks, usage=usage)


def comparator(name: str, matched: str, quotas: Quotas, embed: Embed) -> Comparator:
    """Return `fifo`, `retrieval` or `masking` with the tokens that the method `matched` left."""
    order: Order = _most_similar_first(Retrieval(embed)) if name == "retrieval" else _newest_first
    return Comparator(f"{name}@{matched}", quotas, order, masks=name == "masking")


async def _newest_first(history: History) -> tuple[Sequence[int], Usage]:
    return [span.index for span in reversed(history.spans)], Usage()


def _most_similar_first(retrieval: Retrieval) -> Order:
    """Order spans by how similar they are to the newest one, as the retrieval baseline does."""

    async def order(history: History) -> tuple[Sequence[int], Usage]:
        try:
            ranked, usage = await retrieval.rank(history, history.spans)
        except NoChoice as problem:
            raise NoChoice(str(problem)) from problem  # not as unanswered: comparators are not walked again
        return [span.index for span in ranked], usage

    return order


def _draw(text: str) -> float:
    """Return a number between 0 and 1, always the same for the same text."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) / 2**32


def _closed(history: History, kept: Collection[int]) -> set[int]:
    """Return the spans, and those that providers require with them."""
    return {*kept, *leaders_of(history, kept)}


def _tokens(history: History, kept: Collection[int], rest: Mapping[int, int]) -> int:
    return sum(span.tokens if span.index in kept else rest[span.index] for span in history.spans)


def _masked_size(span: Span) -> int:
    wire = wire_named("chat_completions")
    blank = [blanked(wire, message) for message in span.messages]
    return sum(part_tokens(part) for message in blank for part in wire.read(message, 0) if not part.static)
