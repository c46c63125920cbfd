"""A provider's answer, read as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from multidict import CIMultiDict

_MOST_UNREAD = 256 * 1024
"""Bytes that are held for somebody who reads slowly; then the provider has to wait."""
_LONGEST_HEAD = 256 * 1024


class NoAnswer(Exception):
    """A provider did not answer, or not to the end: why, in words that hold no URL and so no key."""

    def __init__(self, why: str, status: int = 502) -> None:
        super().__init__(why)
        self.status = status
        """What the agent is told."""


class BrokenOff(NoAnswer):
    """The connection was lost: before a word of the answer, or in its body."""


class Answer:
    """Its head is there once `begun` is done; to iterate is to read its body, piece by piece.

    `hold_back` is called with True when the provider has to wait, and with False when no longer. `only_head` says
    that no body follows, whatever the head announces.
    """

    __slots__ = (
        *("begun", "status", "reason", "headers", "is_complete", "is_upgraded", "keeps_connection"),
        *("_hold_back", "_only_head", "_parser", "_head", "_head_size", "_reason"),
        *("_unread", "_unread_size", "_error", "_awaited"),
    )

    def __init__(self, hold_back: Callable[[bool], None], *, only_head: bool = False) -> None:
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.status = 0
        self.reason = ""
        self.headers: CIMultiDict[str] = CIMultiDict()
        self.is_complete = False
        self.is_upgraded = False
        """Whether what follows is no HTTP any more."""
        self.keeps_connection = False
        """Whether another request may follow it."""
        self._hold_back = hold_back
        self._only_head = only_head
        self._parser: HttpResponseParser | None = HttpResponseParser(self)  # None when there is no more to read
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._head: list[tuple[bytes, bytes]] = []
        self._head_size = 0
        self._reason = b""
        self._unread: list[bytes] = []
        self._unread_size = 0
        self._error: NoAnswer | None = None
        self._awaited: asyncio.Future[None] | None = None

    @property
    def ok(self) -> bool:
        return self.status < 400

    @property
    def length(self) -> int | None:
        """Bytes of the body, where the head tells."""
        told = self.headers.get("content-length")
        return None if told is None else int(told)

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> bytes:
        while not self._unread:
            if self._error is not None:
                raise self._error
            if self.is_complete:
                raise StopAsyncIteration
            self._awaited = asyncio.get_running_loop().create_future()
            try:
                await self._awaited
            finally:
                self._awaited = None
        return self.unread()

    def unread(self) -> bytes:
        """All that has come and was not read."""
        pieces, self._unread = self._unread, []
        if self._unread_size > _MOST_UNREAD:
            self._hold_back(False)
        self._unread_size = 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def feed(self, data: bytes) -> None:
        """Bytes from the connection."""
        if self.is_upgraded:
            self._add(data)
        elif self._parser is None:
            self.keeps_connection = False  # nobody asked for more
        elif self._head_size > _LONGEST_HEAD:
            self.fail(NoAnswer("its headers have no end"))
        else:
            try:
                self._parser.feed_data(data)
            except HttpParserUpgrade as upgrade:
                self.is_upgraded = True
                self._add(data[upgrade.args[0] :])
            except HttpParserError:
                self.fail(NoAnswer("its answer makes no sense"))
            if not self.status:
                self._head_size += len(data)

    def feed_end(self, *, is_clean: bool = True) -> None:
        """The connection is gone; where it was closed, that may be the end of the answer."""
        says_where_it_ends = self.length is not None or "chunked" in self.headers.get("transfer-encoding", "")
        if is_clean and (self.is_upgraded or (self.status and not says_where_it_ends)):
            self._end()
        elif self.status or not self._head_size:
            self.fail(BrokenOff("it broke off the connection" + ("" if self.status else " without an answer")))
        else:
            self.fail(NoAnswer("it broke off before its answer made sense"))

    def fail(self, error: NoAnswer) -> None:
        """It will not go on; what came before can still be read."""
        self.keeps_connection = False
        if self.is_complete or self._error is not None:
            return
        self._error, self._parser = error, None
        if not self.begun.done():
            self.begun.set_exception(error)
        self._wake()

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise ValueError("a second answer")

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:  # others come behind the body, and nobody looks at them
            self._head.append((name, value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200 and status != 101:  # hints before the answer
            self._head, self._reason = [], b""
            return
        self.status = status
        self.reason = self._reason.decode("latin-1")
        self.headers = CIMultiDict(
            [(name.decode(), value.decode("utf-8", "surrogateescape")) for name, value in self._head]
        )
        if not self.begun.done():
            self.begun.set_result(None)
        if self._only_head:
            self.on_message_complete()

    def on_body(self, data: bytes) -> None:
        if self.is_complete:
            raise ValueError("a body where there can be none")
        self._add(data)

    def on_message_complete(self) -> None:
        if self.status and not self.is_complete and self._parser is not None and not self._parser.should_upgrade():
            self.keeps_connection = self._parser.should_keep_alive()
            self._end()

    def _add(self, data: bytes) -> None:
        self._unread.append(data)
        self._unread_size += len(data)
        if self._unread_size > _MOST_UNREAD:
            self._hold_back(True)
        self._wake()

    def _end(self) -> None:
        self.is_complete, self._parser = True, None
        self._wake()

    def _wake(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)
