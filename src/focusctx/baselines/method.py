"""The protocol that every method follows: at each step the whole history goes in, what to send comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ..types import Message, Usage


@dataclass(frozen=True, slots=True)
class Compressed:
    """The messages to send at one step, and what it took to choose them."""

    messages: Sequence[Message]
    happened: bool = False
    """True if this step was a compression event: something sent before is sent no more."""
    usage: Usage = Usage()
    """Usage of the models that were asked: a draft, a summariser, an embedder."""
    failure: str | None = None
    """Why nothing happened although it was due; what was sent last then goes on, with what is new."""
    unanswered: bool = False
    """It failed because a model gave no answer: that says nothing about the method."""


class Method(Protocol):
    """Follows one run of an agent. Histories are Chat Completions messages, tool calls or plain text."""

    name: str

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        """`messages` is the full history, which only grows. Never raises for what a model or the network does."""


Factory: TypeAlias = Callable[[], Method]
"""A method begins afresh with every run."""
