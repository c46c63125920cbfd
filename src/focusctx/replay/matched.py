"""Comparators that get, at every step, as many span tokens as another method left there.

Spans cannot be split, so the limit usually falls within one. That span is kept with the probability of its fitting
part, by a draw that its own text decides: over many steps a comparator has as many tokens as the other method. Masking
keeps every thought and action, so it has a minimum size; if that exceeds the limit, it is used, and the step is
recorded in `floored`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from ..baselines.embedders import Embed
from ..baselines.render import turn_as_text
from ..baselines.turnwise import Choice, NoChoice, Turnwise, problem_of
from ..pipeline.budget import pinned_spans
from ..pipeline.companions import leaders_of
from ..types import History, Span, Usage
from ..wire import wire_named
from .sizes import size

Rooms: TypeAlias = Mapping[int, int]
"""Span tokens allowed at a step, by the index of its newest span; a step that is missing keeps all."""

Order: TypeAlias = Callable[[History], Awaitable[tuple[Sequence[int], Usage]]]
"""Returns a history's spans, the one to keep first at the front, and the usage of finding out."""

COMPARATORS = ("fifo", "retrieval", "masking")


class Matched(Turnwise):
    """Keeps spans in a given order until its room is full."""

    def __init__(self, name: str, rooms: Rooms, order: Order, *, skeletons: bool = False) -> None:
        super().__init__()
        self.name = name
        self._rooms = rooms
        self._order = order
        self._skeletons = skeletons
        self.floored: set[int] = set()
        """The newest spans of the steps at which even the minimum exceeded the room."""

    async def choose(self, history: History) -> Choice | None:
        room = self._rooms.get(history.newest)
        if room is None:
            return None
        rest = {span.index: _skeleton_size(span) if self._skeletons else 0 for span in history.spans}
        kept = _closed(history, pinned_spans(history, None))
        if _tokens(history, kept, rest) > room:
            self.floored.add(history.newest)
        order, usage = await self._order(history)
        texts = {span.index: turn_as_text(span) for span in history.spans}
        for index in order:
            more = _closed(history, {*kept, index})
            before, after = _tokens(history, kept, rest), _tokens(history, more, rest)
            if after > room and room - before <= _draw(texts[index]) * (after - before):
                break
            kept = more
        return Choice(kept, dropped="skeleton" if self._skeletons else "remove", usage=usage)


def comparator(name: str, whose: str, rooms: Rooms, embed: Embed) -> Matched:
    """Make `fifo`, `retrieval` or `masking`, with the rooms that the method `whose` left."""
    order: Order = _Alikeness(embed).order if name == "retrieval" else _newest_first
    return Matched(f"{name}@{whose}", rooms, order, skeletons=name == "masking")


async def _newest_first(history: History) -> tuple[Sequence[int], Usage]:
    return [span.index for span in reversed(history.spans)], Usage()


class _Alikeness:
    """Orders spans by similarity to the newest one, as the retrieval baseline does."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._vectors: dict[str, Mapping[int, float]] = {}

    async def order(self, history: History) -> tuple[Sequence[int], Usage]:
        texts = {span.index: turn_as_text(span) for span in history.spans}
        usage = await self._learn([text for text in dict.fromkeys(texts.values()) if text not in self._vectors])
        query = self._vectors[texts[history.newest]]
        likeness = {index: _product(query, self._vectors[text]) for index, text in texts.items()}
        return sorted(texts, key=lambda index: (-likeness[index], -index)), usage

    async def _learn(self, texts: Sequence[str]) -> Usage:
        if not texts:
            return Usage()
        try:
            embedded = await self._embed(texts)
            vectors = [_direction(vector) for vector in embedded.vectors]
        except Exception as error:  # an embedder may raise anything
            raise NoChoice(problem_of(error)) from error
        self._vectors.update(zip(texts, vectors, strict=True))
        return embedded.usage


def _draw(text: str) -> float:
    """Return a number between 0 and 1, always the same for the same text."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) / 2**32


def _direction(vector: Sequence[float]) -> Mapping[int, float]:
    """Scale the vector to length 1, without its zeros: word counts are mostly zeros."""
    length = math.sqrt(math.fsum(float(value) ** 2 for value in vector))
    return {place: float(value) / length for place, value in enumerate(vector) if value} if length else {}


def _product(one: Mapping[int, float], other: Mapping[int, float]) -> float:
    if len(other) < len(one):
        one, other = other, one
    return sum(value * other[place] for place, value in one.items() if place in other)


def _closed(history: History, kept: Collection[int]) -> set[int]:
    """Add the spans that providers require beside the kept ones."""
    return {*kept, *leaders_of(history, kept)}


def _tokens(history: History, kept: Collection[int], rest: Mapping[int, int]) -> int:
    return sum(span.tokens if span.index in kept else rest[span.index] for span in history.spans)


def _skeleton_size(span: Span) -> int:
    wire = wire_named("chat_completions")
    return size([wire.blank(message, None) for message in span.messages])
