"""The protocol of every method: at each step it gets the whole history and returns the messages to send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ..types import Message, Usage


@dataclass(frozen=True, slots=True)
class Compressed:
    """The messages to send at one step, and what they cost to find."""

    messages: Sequence[Message]
    happened: bool = False
    """True if this step was a compression event: something sent before is no longer sent."""
    usage: Usage = Usage()
    """Usage of the models that were asked: a draft, a summariser, an embedder."""
    failure: str | None = None
    """Why nothing happened although it was due; the last view is then sent with the new messages."""
    unanswered: bool = False
    """True if a model gave no answer, which says nothing about the method."""


class Method(Protocol):
    """Follows one run of an agent. Histories are Chat Completions messages, tool calls or plain text."""

    name: str

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        """Return what to send for the full history, which only grows. Never raises for a failing model or network."""


Factory: TypeAlias = Callable[[], Method]
"""Makes a new method for every run."""
