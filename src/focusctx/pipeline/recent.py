"""Readers of the histories seen last, so that the next step of a conversation costs only its new messages."""

from __future__ import annotations

from collections.abc import Sequence

from ..config import FocusConfig
from ..types import Message
from ..wire import recognise, wire_named
from .plain import plain_message
from .split import Count, Reader, check_list

_REMEMBERED = 8
"""Conversations that may take turns before one is read again from the start."""


class RecentHistories:
    """Knows a conversation by its messages: comparing those is nearly free where they are the same objects.

    Not for several threads at once: a reader that is handed out goes on growing. Its owner holds a lock.
    """

    def __init__(self, config: FocusConfig, count: Count) -> None:
        self._config = config
        self._count = count
        self._readers: list[tuple[str | None, Reader]] = []  # with the format each was asked to read

    def read(self, messages: Sequence[Message], format: str | None) -> Reader:
        """A reader that has read exactly these messages."""
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
        self._readers = [(format, reader), *self._readers[: _REMEMBERED - 1]]
        return reader

    def current(self, reader: Reader, newest: int = 0) -> Reader:
        """The reader, or a new one over the same messages if some were edited in place since they were read.

        Looks at the newest so many messages, at all of them by default.
        """
        if reader.is_current(newest):
            return reader
        asked = self._forget(reader)
        return self.read(reader.messages, asked)

    def _longest(self, messages: Sequence[Message], format: str | None) -> Reader | None:
        """The reader that knows most of the list."""
        if not isinstance(messages, list | tuple):
            return None
        asked = [reader for form, reader in self._readers if form == format]
        known = [reader for reader in asked if reader.continues(messages)]
        return max(known, key=lambda reader: len(reader.messages), default=None) or next(
            (reader for reader in asked if reader.takes_marks(messages)), None
        )

    def _forget(self, reader: Reader) -> str | None:
        """Take a reader off the shelf; the format it was asked to read."""
        asked = next((entry[0] for entry in self._readers if entry[1] is reader), reader.wire.name)
        self._readers = [entry for entry in self._readers if entry[1] is not reader]
        return asked
