"""Which conversation a history is: one that is held and goes on, or a new one. Only what is new of it is read."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..compressor import Focus
from ..pipeline.plain import plain_message
from ..pipeline.split import Reader, check_list
from ..types import Message
from ..wire import recognise, wire_named
from .conversation import Conversation
from .keys import Chain
from .registry import Registry, Shelf

_log = logging.getLogger("focusctx")
_LOOKED_AT = 64
"""Messages, the newest ones, that are compared at every call with what was read."""


class Conversations:
    """The conversations of a session. `begin` makes a new one; `frozen` is as for `Session`.

    `let_go` is called with each one that is held no longer.
    """

    def __init__(
        self,
        focus: Focus,
        begin: Callable[[Reader, Chain, str | None], Conversation],
        let_go: Callable[[Conversation], None],
        *,
        frozen: bool,
    ) -> None:
        self._focus = focus
        self._begin = begin
        self._let_go = let_go
        self._frozen = frozen
        self._registry = Registry()
        self._warned = False

    def __iter__(self) -> Iterator[Conversation]:
        """The one used last comes first."""
        return iter(self._registry)

    @contextmanager
    def that_is(
        self,
        messages: Sequence[Message],
        format: str | None,
        id: str | None,
        *,
        of: Conversation | None = None,
        name: str | None = None,
    ) -> Iterator[Conversation]:
        """The conversation that these messages are, read as far as they go, for this call alone.

        A caller that tells conversations apart itself gives the `name` of this one, and the object `of` it that goes
        on, if there is one.
        """
        check_list(messages, len(messages) if isinstance(messages, list | tuple) else 0)
        shelf = Shelf(id, format, f"name {name}") if name else Shelf.of(messages, id, format)
        conversation = self._grown(messages, shelf) or self._read(messages, shelf, name, of)
        try:
            if not self._frozen:
                conversation = self._current(conversation, messages, shelf)
            self._warn_of_unknown(conversation.reader)
            yield conversation
        finally:
            self._put_back(conversation)

    @contextmanager
    def if_free(self, conversation: Conversation) -> Iterator[bool]:
        """Use this very conversation; False if another call does, or if it is not held any more."""
        free = self._registry.use(conversation)
        try:
            yield free
        finally:
            if free:
                self._put_back(conversation)

    def forget(self, conversation: Conversation) -> None:
        self._registry.remove(conversation)
        self._let_go(conversation)

    def _grown(self, messages: Sequence[Message], shelf: Shelf) -> Conversation | None:
        """A conversation that is held and only got longer: the usual case, and only what is new is read."""
        conversation = self._registry.continued_by(messages, shelf)
        if conversation is None:
            return None
        try:
            reader = conversation.reader
            known = len(reader.messages)
            check_list(messages, known)
            if known < conversation.place.messages:
                conversation.go_back()
            if not (shelf.format or reader.fits(messages[known:])):
                self._put_back(conversation)
                return None
            reader.extend(messages[known:])
            conversation.grow()
        except BaseException:
            self.forget(conversation)  # half read
            raise
        return conversation

    def _read(
        self, messages: Sequence[Message], shelf: Shelf, name: str | None, of: Conversation | None
    ) -> Conversation:
        """A conversation that is new here, or held in other objects."""
        check_list(messages)
        reader, chain = self._read_all(messages, shelf.format)
        conversation = self._registry.resumed_by(reader, chain, shelf)
        if conversation is not None:
            conversation.adopt(reader, chain)
            return conversation
        conversation = self._begin(reader, chain, shelf.id)
        if of is not None:
            self._replace(of, conversation)
        return self._add(conversation, shelf, name)

    def _current(self, conversation: Conversation, messages: Sequence[Message], shelf: Shelf) -> Conversation:
        """The conversation as it is now: agents edit messages in place, mostly new ones.

        To look at all of them takes time, and is done only before a decision.
        """
        newest = 0 if conversation.tokens > self._focus.config.budget else _LOOKED_AT
        if conversation.reader.is_current(newest):
            return conversation
        reader, chain = self._read_all(messages, shelf.format)
        if conversation.common(reader, chain) > (0, 0):
            conversation.adopt(reader, chain)
            return conversation
        edited = self._begin(reader, chain, shelf.id)
        self._replace(conversation, edited)
        return self._add(edited, shelf, conversation.key)

    def _replace(self, old: Conversation, new: Conversation) -> None:
        """Go on with another object, where the past is not what it was."""
        new.events, new.ledger, old.events = old.events, old.ledger, deque()
        self.forget(old)

    def _add(self, conversation: Conversation, shelf: Shelf, name: str | None) -> Conversation:
        conversation.key = name or conversation.key
        self._registry.add(conversation, shelf)
        return conversation

    def _read_all(self, messages: Sequence[Message], format: str | None) -> tuple[Reader, Chain]:
        wire = wire_named(format) if format else recognise(map(plain_message, messages))
        reader = Reader(wire, self._focus.config, self._focus.count, watched=not self._frozen)
        reader.extend(messages)
        return reader, Chain.of(reader.messages, reader.owners)

    def _warn_of_unknown(self, reader: Reader) -> None:
        if not self._warned and (unknown := reader.unknown()):
            self._warned = True  # once is enough: the history comes again at every step
            _log.warning("%s", unknown)

    def _put_back(self, conversation: Conversation) -> None:
        for gone in self._registry.put_back(conversation):
            self._let_go(gone)
