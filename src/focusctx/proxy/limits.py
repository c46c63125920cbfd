"""Limits on the cost of one request. A body that exceeds them is forwarded unread, like a stream.

A few kilobytes can unpack to millions of messages, and each takes a hundred times its bytes once it is parsed. So
values are counted first, by searches that run at the speed of memory, before any object is built. Bodies that are
legal but large are parsed on a thread, so that other requests are answered meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ..errors import FocusError

T = TypeVar("T")

MESSAGES = 10_000
"""Most messages in one request."""
VALUES = 200_000
"""Most JSON values in one request: twenty for each message."""
LARGE = 1024 * 1024
"""Bytes that take milliseconds to parse: larger bodies are parsed on a thread."""
_HUGE = 8 * LARGE
"""Bytes that take a second to parse: such work has a separate thread, so that nothing smaller waits for it."""
_RATIO = 100
"""Largest factor by which a body may grow when it is unpacked; text rarely reaches a tenth of it."""
_PER_MESSAGE = 600
"""Bytes of memory that a message takes besides its text."""
_PATIENCE = 30.0
"""Seconds that a request waits for a thread. After that it is forwarded unread."""


def unpacked_limit(packed: int, limit: int) -> int:
    """Return how many bytes a compressed body of `packed` bytes may unpack to."""
    return min(limit, max(_RATIO * packed, LARGE))


def has_too_many_values(text: bytes) -> bool:
    """True if JSON text holds more than `VALUES` values. Commas and quotes inside its strings do not count."""
    if len(text) < 2 * VALUES or text.count(b",") < VALUES:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if text.count(b'"') > 2 * VALUES:
        return True
    return b"".join(text.split(b'"')[::2]).count(b",") >= VALUES  # every other piece is outside strings


def weight(messages: Sequence[bytes]) -> int:
    """Estimate the bytes of memory that the messages take once they are parsed."""
    return sum(map(len, messages)) + _PER_MESSAGE * len(messages)


class Busy(FocusError):
    """No thread was free for a large request."""

    def __init__(self) -> None:
        super().__init__(f"too many large requests at once: no thread was free within {_PATIENCE:.0f} s")


class Work:
    """Threads for work that would block the event loop; few enough to leave the loop its share of the processor."""

    def __init__(self) -> None:
        self._usual = ThreadPoolExecutor(4, "focusctx large")
        self._huge = ThreadPoolExecutor(1, "focusctx huge")

    async def run(self, size: int, function: Callable[[], T]) -> T:
        """Call the function, which has `size` bytes to process: directly, or on a thread if that takes long."""
        return await self.on_thread(size, function) if size > LARGE else function()

    async def on_thread(self, size: int, function: Callable[[], T]) -> T:
        """Call the function on a thread.

        If the caller is cancelled, wait for the function first: it may be changing data that the caller has locked.
        """
        work = (self._huge if size > _HUGE else self._usual).submit(function)
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(work)), _PATIENCE)
        except TimeoutError:
            if work.cancel():
                raise Busy from None
            return await asyncio.shield(asyncio.wrap_future(work))
        finally:
            if not work.cancel():
                await _ended(work)

    def close(self) -> None:
        for threads in (self._usual, self._huge):
            threads.shutdown(wait=False, cancel_futures=True)


async def _ended(work: Future[T]) -> None:
    while not work.done():
        try:
            await asyncio.wait([asyncio.wrap_future(work)])
        except asyncio.CancelledError:
            continue  # the caller is already being cancelled
