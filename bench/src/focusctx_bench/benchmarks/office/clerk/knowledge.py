"""What the agent knows at one step: facts, the messages that state them, and which of them a decision used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Key = tuple[str, ...]


class Fact(NamedTuple):
    key: Key
    value: Any
    order: int = 0
    """Of two values the one with the higher order counts, then the one stated later."""


class Used(NamedTuple):
    """A fact that a decision rests on, and the messages that state it: any one of them is enough."""

    key: Key
    value: Any
    places: frozenset[int]


class Knowledge:
    def __init__(self) -> None:
        self._facts: dict[Key, list[tuple[int, int, Any]]] = {}
        self.used: list[Used] = []

    def add(self, fact: Fact, place: int) -> None:
        self._facts.setdefault(fact.key, []).append((fact.order, place, fact.value))

    def get(self, *key: str) -> Any:
        """The value, or None when no message states it."""
        stated = self._facts.get(key)
        if not stated:
            return None
        value = max(stated, key=lambda one: one[:2])[2]
        last_other = max((one[:2] for one in stated if one[2] != value), default=(-1, -1))
        sources = frozenset(place for order, place, other in stated if other == value and (order, place) > last_other)
        self.used.append(Used(key, value, sources))
        return value

    def has(self, *key: str) -> bool:
        return self.get(*key) is not None

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._facts))

    def under(self, *prefix: str) -> Iterator[tuple[Key, Any]]:
        """All that is known below a key: what is left of each key, and its value."""
        for key in self:
            if key[: len(prefix)] == prefix and len(key) > len(prefix):
                yield key[len(prefix) :], self.get(*key)
