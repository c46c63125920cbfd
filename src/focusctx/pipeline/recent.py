"""Readers of recent histories, so that the next step of a conversation costs only its new messages."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..config import FocusConfig
from ..types import Message
from ..wire import recognise, wire_named
from .plain import plain_message
from .split import Count, Reader, check_list

_log = logging.getLogger("focusctx")
_REMEMBERED = 8
"""Number of conversations that may alternate before one is read again from the start."""


class RecentHistories:
    """Finds the reader of a conversation by its messages; comparing is nearly free if they are the same objects.

    Not thread-safe: a reader keeps growing after it was handed out, so the owner holds a lock.
    """

    def __init__(self, config: FocusConfig, count: Count) -> None:
        self._config = config
        self._count = count
        self._readers: list[tuple[str | None, Reader]] = []  # each with the format requested for it
        self._warned = False

    def read(self, messages: Sequence[Message], format: str | None) -> Reader:
        """Return a reader that has read exactly these messages."""
        reader = self._longest(messages, format)
        seen = len(reader.messages) if reader else 0
        check_list(messages, seen)
        new = messages[seen:]
        if reader is None or not (format or reader.fits(new)):
            check_list(messages)
            wire = wire_named(format) if format else recognise(map(plain_message, messages))
            reader, new = Reader(wire, self._config, self._count, watched=True), messages
        else:
            self._forget(reader)  # put back below, unless it meets a bad message
        reader.extend(new)
        if not self._warned and (unknown := reader.unknown()):
            self._warned = True  # once is enough: the history is sent again at every step
            _log.warning("%s", unknown)
        self._readers = [(format, reader), *self._readers[: _REMEMBERED - 1]]
        return reader

    def current(self, reader: Reader, newest: int = 0) -> Reader:
        """Return the reader, or a new one over the same messages if some were edited in place since they were read.

        Checks the `newest` messages, by default all of them.
        """
        if reader.is_current(newest):
            return reader
        asked = self._forget(reader)
        return self.read(reader.messages, asked)

    def _longest(self, messages: Sequence[Message], format: str | None) -> Reader | None:
        """Return the reader that has read the longest prefix of the list."""
        if not isinstance(messages, list | tuple):
            return None
        asked = [reader for form, reader in self._readers if form == format]
        known = [reader for reader in asked if reader.continues(messages)]
        return max(known, key=lambda reader: len(reader.messages), default=None) or next(
            (reader for reader in asked if reader.takes_marks(messages)), None
        )

    def _forget(self, reader: Reader) -> str | None:
        """Remove a reader; return the format requested for it."""
        asked = next((entry[0] for entry in self._readers if entry[1] is reader), reader.wire.name)
        self._readers = [entry for entry in self._readers if entry[1] is not reader]
        return asked
