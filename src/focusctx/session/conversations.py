"""The conversations a session holds: find the one that a history continues, or begin a new one.

Each is found by the caller's id and by its chain, and only the new part of a history is read. A lock is held only
during the search. A conversation is in use by one call at a time. A call that comes for it meanwhile does not wait: it
works on an object of its own, which reads the same decisions from the store.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..compressor import Focus
from ..pipeline.split import Reader, check_list, plain_message
from ..types import Message
from ..wire import recognise, wire_named
from ..wire.part import is_by_user
from .conversation import Chain, Conversation
from .stores.fork import ForkSafe

MOST = 1000
"""Conversations held. One that was released continues from the store when it comes back."""
MOST_TOKENS = 40_000_000
"""Tokens of their histories, all together."""
_log = logging.getLogger("focusctx")
_COMPARED = 64
"""Newest messages that are compared at every call with those read before."""
_FAR = 8
"""Messages among which the user's first words are looked for."""


@dataclass(frozen=True, slots=True)
class Group:
    """The conversations that one history could continue: those with the same id, format and first words."""

    id: str | None
    format: str | None
    opening: str


class Conversations(ForkSafe):
    """The conversations of a session. `begin` makes a new one; `frozen` is as for `Session`.

    `release` is called with each conversation that is no longer held.
    """

    def __init__(
        self,
        focus: Focus,
        begin: Callable[[Reader, Chain, str | None], Conversation],
        release: Callable[[Conversation], None],
        *,
        frozen: bool,
    ) -> None:
        super().__init__()
        self._focus = focus
        self._begin = begin
        self._release = release
        self._frozen = frozen
        self._warned = False
        self._told_doubts = False
        self._groups: dict[Group, list[Conversation]] = {}
        self._held: OrderedDict[Conversation, tuple[Group, int]] = OrderedDict()
        """Each conversation with its group and its tokens, most recently used last."""
        self._tokens = 0
        self._in_use: set[Conversation] = set()

    def __iter__(self) -> Iterator[Conversation]:
        """Iterate over a copy, most recently used first."""
        with self._lock:
            return iter(list(reversed(self._held)))

    @contextmanager
    def using(
        self,
        messages: Sequence[Message],
        format: str | None,
        id: str | None,
        *,
        continues: Conversation | None = None,
        name: str | None = None,
    ) -> Iterator[Conversation]:
        """Use the conversation of these messages, with all of them read, for this call alone.

        A caller that tells conversations apart itself gives the `name` of this one, and the object that it
        `continues`, if there is one.
        """
        check_list(messages, len(messages) if isinstance(messages, list | tuple) else 0)
        group = Group(id, format, f"name {name}" if name else _opening(messages))
        conversation = self._grown(messages, group) or self._read(messages, group, name, continues)
        try:
            if not self._frozen:
                conversation = self._current(conversation, messages, group)
            self._warn(conversation.reader)
            yield conversation
        finally:
            self._put_back(conversation)

    @contextmanager
    def if_free(self, conversation: Conversation) -> Iterator[bool]:
        """Use this very conversation; False if another call does, or if it is no longer held."""
        with self._lock:
            free = conversation in self._held and conversation not in self._in_use
            if free:
                self._in_use.add(conversation)
        try:
            yield free
        finally:
            if free:
                self._put_back(conversation)

    def forget(self, conversation: Conversation) -> None:
        with self._lock:
            self._remove(conversation)
        self._release(conversation)

    # Read the messages.

    def _grown(self, messages: Sequence[Message], group: Group) -> Conversation | None:
        """Find a held conversation that only got longer, and read the new messages: the usual case."""
        conversation = self._continued_by(messages, group)
        if conversation is None:
            return None
        try:
            reader = conversation.reader
            known = len(reader.messages)
            check_list(messages, known)
            if known < conversation.place.messages:
                conversation.shorten()
            if not (group.format or reader.fits(messages[known:])):
                self._put_back(conversation)
                return None
            reader.extend(messages[known:])
            conversation.grow()
        except BaseException:
            self.forget(conversation)  # half read
            raise
        return conversation

    def _read(
        self, messages: Sequence[Message], group: Group, name: str | None, continues: Conversation | None
    ) -> Conversation:
        """Read a conversation that is new here, or held in other objects."""
        check_list(messages)
        reader, chain = self._read_all(messages, group.format)
        conversation = self._resumed_by(reader, chain, group)
        if conversation is not None:
            conversation.adopt(reader, chain)
            return conversation
        conversation = self._begin(reader, chain, group.id)
        if continues is not None:
            self._replace(continues, conversation)
        return self._add(conversation, group, name)

    def _current(self, conversation: Conversation, messages: Sequence[Message], group: Group) -> Conversation:
        """Read the conversation again if messages were edited in place, as agents do, mostly with new ones.

        Comparing all of them takes time, and is done only before a decision.
        """
        newest = 0 if conversation.tokens > self._focus.config.budget else _COMPARED
        if conversation.reader.is_current(newest):
            return conversation
        reader, chain = self._read_all(messages, group.format)
        if conversation.common(reader, chain) > (0, 0):
            conversation.adopt(reader, chain)
            return conversation
        edited = self._begin(reader, chain, group.id)
        self._replace(conversation, edited)
        return self._add(edited, group, conversation.key)

    def _replace(self, old: Conversation, new: Conversation) -> None:
        """Continue with another object, because the past was edited."""
        new.events, new.ledger, old.events = old.events, old.ledger, deque()
        self.forget(old)

    def _read_all(self, messages: Sequence[Message], format: str | None) -> tuple[Reader, Chain]:
        wire = wire_named(format) if format else recognise(map(plain_message, messages))
        reader = Reader(wire, self._focus.config, self._focus.count, watched=not self._frozen)
        reader.extend(messages)
        return reader, Chain.of(reader.messages, reader.owners)

    def _warn(self, reader: Reader) -> None:
        """Log what is unclear about a history; once is enough, since it comes again at every step."""
        if not self._warned and (unknown := reader.unknown()):
            self._warned = True
            _log.warning("%s", unknown)
        large = reader.tokens > self._focus.config.budget  # a chat within the budget loses nothing in any reading
        if large and not self._told_doubts and (doubts := reader.doubts()):
            self._told_doubts = True
            _log.warning("%s", doubts)

    # Hold them, and find them again.

    def _continued_by(self, messages: Sequence[Message], group: Group) -> Conversation | None:
        """Use the longest conversation whose messages are all at the beginning of the list."""
        with self._lock:
            idle = self._idle(group)
            continued = [known for known in idle if known.reader.continues(messages)]
            longest = max(continued, key=lambda known: len(known.reader.messages), default=None)
            found = (
                longest
                or next((known for known in idle if known.reader.takes_marks(messages)), None)
                or next((known for known in idle if known.reader.takes_other_words(messages)), None)
            )
            if found:
                self._in_use.add(found)
            return found

    def _resumed_by(self, reader: Reader, chain: Chain, group: Group) -> Conversation | None:
        """Use the conversation that a history continues by its chain, whichever objects it is in."""
        with self._lock:
            shared = {known: known.common(reader, chain) for known in self._idle(group)}
            best = max(shared, key=shared.__getitem__, default=None)
            if best is None or shared[best] == (0, 0):
                return None
            self._in_use.add(best)
            return best

    def _idle(self, group: Group) -> list[Conversation]:
        return [known for known in self._groups.get(group, ()) if known not in self._in_use]

    def _add(self, conversation: Conversation, group: Group, name: str | None) -> Conversation:
        """Hold a new conversation, which this call uses, under a key that is unique in its group."""
        with self._lock:
            members = self._groups.setdefault(group, [])
            taken = {known.key for known in members}
            name = conversation.key = name or conversation.key
            number = 1
            while conversation.key in taken:
                number += 1
                conversation.key = f"{name}-{number}"
            members.append(conversation)
            self._held[conversation] = group, 0
            self._in_use.add(conversation)
        return conversation

    def _put_back(self, conversation: Conversation) -> None:
        """End the use of a conversation, and release the least recently used ones if there are too many."""
        with self._lock:
            self._in_use.discard(conversation)
            if conversation in self._held:
                group, before = self._held.pop(conversation)
                self._held[conversation] = group, conversation.reader.tokens
                self._tokens += conversation.reader.tokens - before
            over = len(self._held) > MOST or self._tokens > MOST_TOKENS
            gone: list[Conversation] = []
            for known in list(self._held)[:-1] if over else ():
                if len(self._held) <= MOST and self._tokens <= MOST_TOKENS:
                    break
                if known not in self._in_use:
                    self._remove(known)
                    gone.append(known)
        for known in gone:
            self._release(known)

    def _remove(self, conversation: Conversation) -> None:
        self._in_use.discard(conversation)
        if conversation not in self._held:
            return
        group, tokens = self._held.pop(conversation)
        self._tokens -= tokens
        members = self._groups[group]
        members.remove(conversation)
        if not members:
            del self._groups[group]


def _opening(messages: Sequence[Message]) -> str:
    """Return the user's first words, without cache marks: a quick way to tell most conversations apart."""
    for message in messages[:_FAR]:
        if isinstance(message, Mapping) and is_by_user(message):
            content = message.get("content", message.get("parts"))
            if isinstance(content, list) and content and isinstance(content[0], Mapping):
                content = content[0].get("text")
            return content if isinstance(content, str) else ""
    return ""
