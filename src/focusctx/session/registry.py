"""The conversations a session holds, each found by the caller's id and by its chain.

A lock is held only while one is looked for. A conversation is in use by one call at a time. A call that comes for it
meanwhile does not wait: it is not found, and works on an object of its own, which reads the same decisions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..pipeline.split import Reader
from ..types import Message
from .conversation import Conversation
from .keys import Chain
from .stores.fork import ForkSafe

MOST = 1000
"""Conversations held. One that was let go of goes on from the store when it comes back."""
MOST_TOKENS = 40_000_000
"""Tokens of their histories, all together."""
_FAR = 8
"""Messages among which the user's first words are looked for."""


class Shelf(NamedTuple):
    """Where a conversation is looked for: those of one shelf may be continued by the same history."""

    id: str | None
    format: str | None
    opening: str

    @classmethod
    def of(cls, messages: Sequence[Message], id: str | None, format: str | None) -> Shelf:
        return cls(id, format, _opening(messages))


class Registry(ForkSafe):
    def __init__(self) -> None:
        super().__init__()
        self._shelves: dict[Shelf, list[Conversation]] = {}
        self._places: OrderedDict[Conversation, tuple[Shelf, int]] = OrderedDict()
        """All that are held, the one used last at the end, each with its shelf and its tokens."""
        self._tokens = 0
        self._in_use: set[Conversation] = set()

    def __iter__(self) -> Iterator[Conversation]:
        """The one used last comes first."""
        with self._lock:
            return iter(list(reversed(self._places)))

    def continued_by(self, messages: Sequence[Message], shelf: Shelf) -> Conversation | None:
        """Use the conversation whose messages are the most of those at the beginning of the list."""
        with self._lock:
            idle = [known for known in self._shelves.get(shelf, ()) if known not in self._in_use]
            continued = [known for known in idle if known.reader.continues(messages)]
            longest = max(continued, key=lambda known: len(known.reader.messages), default=None)
            found = (
                longest
                or next((known for known in idle if known.reader.takes_marks(messages)), None)
                or next((known for known in idle if known.reader.takes_other_words(messages)), None)
            )
            return self._use(found)

    def resumed_by(self, reader: Reader, chain: Chain, shelf: Shelf) -> Conversation | None:
        """Use the conversation that a history goes on from by its chain, in whatever objects."""
        with self._lock:
            idle = [known for known in self._shelves.get(shelf, ()) if known not in self._in_use]
            shared = {known: known.common(reader, chain) for known in idle}
            best = max(idle, key=shared.__getitem__, default=None)
            return self._use(best if best and shared[best] > (0, 0) else None)

    def add(self, conversation: Conversation, shelf: Shelf) -> None:
        """Hold a new one; the caller uses it."""
        with self._lock:
            shelved = self._shelves.setdefault(shelf, [])
            taken = {known.key for known in shelved}
            name, number = conversation.key, 1
            while conversation.key in taken:
                number += 1
                conversation.key = f"{name}-{number}"
            shelved.append(conversation)
            self._places[conversation] = shelf, 0
            self._use(conversation)

    def use(self, conversation: Conversation) -> bool:
        """Use this very one; False if it is in use, or not held any more."""
        with self._lock:
            free = conversation in self._places and conversation not in self._in_use
            return self._use(conversation if free else None) is not None

    def put_back(self, conversation: Conversation) -> list[Conversation]:
        """End the use of a conversation; return those that had to go because there are too many."""
        with self._lock:
            self._in_use.discard(conversation)
            if conversation in self._places:
                shelf, before = self._places.pop(conversation)
                self._places[conversation] = shelf, conversation.reader.tokens
                self._tokens += conversation.reader.tokens - before
            over = len(self._places) > MOST or self._tokens > MOST_TOKENS
            gone: list[Conversation] = []
            for known in list(self._places)[:-1] if over else ():
                if len(self._places) <= MOST and self._tokens <= MOST_TOKENS:
                    break
                if known not in self._in_use:
                    self._remove(known)
                    gone.append(known)
            return gone

    def remove(self, conversation: Conversation) -> None:
        with self._lock:
            self._remove(conversation)

    def _use(self, conversation: Conversation | None) -> Conversation | None:
        if conversation is not None:
            self._in_use.add(conversation)
        return conversation

    def _remove(self, conversation: Conversation) -> None:
        self._in_use.discard(conversation)
        if conversation not in self._places:
            return
        shelf, tokens = self._places.pop(conversation)
        self._tokens -= tokens
        shelved = self._shelves[shelf]
        shelved.remove(conversation)
        if not shelved:
            del self._shelves[shelf]


def _opening(messages: Sequence[Message]) -> str:
    """The user's first words, without cache marks: a quick way to tell most conversations apart."""
    for message in messages[:_FAR]:
        if isinstance(message, Mapping) and message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, list) and content and isinstance(content[0], Mapping):
                content = content[0].get("text")
            return content if isinstance(content, str) else ""
    return ""
