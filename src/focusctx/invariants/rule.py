"""The interface of a provider rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..types import Message


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One place where a message list breaks a provider's rule."""

    position: int
    problem: str

    def __str__(self) -> str:
        return f"message {self.position}: {self.problem}"


class Rule(Protocol):
    def __call__(self, messages: Sequence[Message]) -> Iterator[Violation]: ...
