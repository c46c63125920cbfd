"""Read views of a run: their tokens, their texts, and which facts they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..types import History, Message
from ..wire import wire_named
from .runs import part_tokens


@dataclass(frozen=True, slots=True)
class Seen:
    """One view."""

    tokens: int
    """Tokens as the budget counts them: without system prompts."""
    static: int
    """Tokens of system prompts."""
    texts: Counter[str]
    """Every thought, action, observation and word in it."""
    facts: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Read:
    tokens: int
    static: int
    texts: tuple[str, ...]
    facts: frozenset[str]


class Views:
    """Reads views of one history. Messages of the history are read once; others, made by a method, as they come."""

    def __init__(self, history: History, facts: Collection[str]) -> None:
        self._wire = wire_named(history.format)
        self._facts = facts
        self._held: dict[str, frozenset[str]] = {}
        self._messages = history.messages  # held, so that their ids stay theirs
        self._known = {id(message): self._read(message) for message in history.messages}

    def look(self, view: Sequence[Message]) -> Seen:
        read = [self._known.get(id(message)) or self._read(message) for message in view]
        return Seen(
            tokens=sum(one.tokens for one in read),
            static=sum(one.static for one in read),
            texts=Counter(text for one in read for text in one.texts),
            facts=frozenset[str]().union(*(one.facts for one in read)),
        )

    def held(self, text: str) -> frozenset[str]:
        """The facts that a text holds."""
        if text not in self._held:
            self._held[text] = frozenset(fact for fact in self._facts if fact in text)
        return self._held[text]

    def size(self, message: Message) -> int:
        """Tokens of a message, all of them."""
        read = self._known.get(id(message)) or self._read(message)
        return read.tokens + read.static

    def _read(self, message: Message) -> _Read:
        parts = self._wire.read(message, 0)
        sizes = [(part.static, part_tokens(part)) for part in parts]
        texts = tuple(text for part in parts for text in (part.thought, part.action, part.text) if text)
        return _Read(
            tokens=sum(size for static, size in sizes if not static),
            static=sum(size for static, size in sizes if static),
            texts=texts,
            facts=frozenset[str]().union(*map(self.held, texts)),
        )
