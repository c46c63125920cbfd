"""Rules that choose turns without a plan: all, the newest, masked observations, and the most similar to the newest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..errors import ConfigError
from ..types import History, Message, Span, Usage
from .embedders import Embed
from .method import Choice, Compressed, NoChoice, Turnwise, droppable, problem_of, turn_as_text


class NoCompression:
    """The whole history, at every step."""

    name = "none"

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        return Compressed(messages)


class Fifo(Turnwise):
    """The newest turns, whatever their length."""

    name = "fifo"

    def __init__(self, turns: int = 5) -> None:
        super().__init__()
        if turns < 1:
            raise ConfigError(f"turns must be 1 or more, got {turns!r}")
        self._turns = turns

    async def choose(self, history: History) -> Choice | None:
        return Choice([span.index for span in history.spans[-self._turns :]])


class Masking(Turnwise):
    """All thoughts and actions, and the newest observations; older ones become `focusctx.wire.part.PLACEHOLDER`.

    An observation shorter than that stays.
    """

    def __init__(self, keep: int = 10) -> None:
        super().__init__()
        if keep < 1:
            raise ConfigError(f"keep must be 1 or more, got {keep!r}")
        self.name = f"masking-{keep}"
        self._keep = keep

    async def choose(self, history: History) -> Choice | None:
        observing = [span.index for span in history.spans if _has_observation(span)]
        masked = frozenset(observing[: -self._keep])
        return Choice([span.index for span in history.spans if span.index not in masked], masked=True)


def _has_observation(span: Span) -> bool:
    return any(message.get("role") != "assistant" for message in span.messages)


class Retrieval(Turnwise):
    """The older turns most similar to the newest one, in order.

    It chooses again at every step at which the older turns have more tokens than the budget.
    """

    name = "retrieval"

    def __init__(self, embed: Embed, budget: int = 4096, *, top: int = 5) -> None:
        super().__init__()
        if budget < 0 or top < 1:
            raise ConfigError(f"budget must be 0 or more and top 1 or more, got {budget!r} and {top!r}")
        self._embed = embed
        self._budget = budget
        self._top = top
        self._vectors: dict[str, list[float]] = {}

    async def choose(self, history: History) -> Choice | None:
        older = droppable(history)
        if sum(span.tokens for span in older) <= self._budget or len(older) <= self._top:
            return None
        ranked, usage = await self.rank(history, older)
        return Choice([span.index for span in ranked[: self._top]], usage=usage)

    async def rank(self, history: History, older: Sequence[Span]) -> tuple[Sequence[Span], Usage]:
        """Return the turns, the one most similar to the newest turn first, and the usage of embedding them."""
        usage = await self._learn([*older, history.spans[-1]])
        query = self._vectors[turn_as_text(history.spans[-1])]
        # Among equally similar turns the newer ones come first.
        return sorted(older, key=lambda span: (-_dot(query, self._vectors[turn_as_text(span)]), -span.index)), usage

    async def _learn(self, spans: Sequence[Span]) -> Usage:
        """Embed texts that were not embedded before."""
        new = list(dict.fromkeys(text for span in spans if (text := turn_as_text(span)) not in self._vectors))
        if not new:
            return Usage()
        try:
            embedded = await self._embed(new)
            vectors = [_unit(vector) for vector in embedded.vectors]
            if len(vectors) != len(new) or len({len(vector) for vector in vectors}) != 1:
                raise ValueError("the embedder must return one vector per text, all of the same length")
        except Exception as error:  # an embedder may raise anything, and the agent must go on
            raise NoChoice(problem_of(error), unanswered=True) from error
        self._vectors.update(zip(new, vectors, strict=True))
        return embedded.usage


def _unit(vector: Sequence[float]) -> list[float]:
    """Scale the vector to length 1, so that a product is a cosine. A zero vector (no words) is like nothing."""
    length = math.sqrt(math.fsum(float(value) ** 2 for value in vector))
    return [float(value) / length if 0 < length < math.inf else 0.0 for value in vector]


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(map(float.__mul__, one, other))
