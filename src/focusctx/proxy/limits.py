"""Bounds on what one request may cost. A body beyond them goes up unread, as a stream does.

A few kilobytes can unpack to millions of messages, each of which costs a hundred times its bytes once it is read. So
values are counted, by searches that run at the speed of memory, before anything is built. What is legal but large is
read on a thread, so that other requests are answered meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ..errors import FocusError

T = TypeVar("T")

MESSAGES = 10_000
"""Messages of one request."""
VALUES = 200_000
"""JSON values of one request: twenty for each message."""
LARGE = 1024 * 1024
"""Bytes that take milliseconds to read: they are read on a thread."""
_HUGE = 8 * LARGE
"""Bytes that take a second: such work has a thread of its own, so that nothing smaller waits for it."""
_RATIO = 100
"""How many times its size a body may unpack to; text rarely reaches a tenth of that."""
_PER_MESSAGE = 600
"""Bytes that a message takes in memory beside its text."""
_PATIENCE = 30.0
"""Seconds that a request waits for a thread. Then it goes up unread."""


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
    return b"".join(text.split(b'"')[::2]).count(b",") >= VALUES  # every other piece stands outside of strings


def weight(messages: Sequence[bytes]) -> int:
    """Return roughly how many bytes of memory the messages take once they are read."""
    return sum(map(len, messages)) + _PER_MESSAGE * len(messages)


class Busy(FocusError):
    """No thread was free for a large request."""

    def __init__(self) -> None:
        super().__init__(f"too many large requests at once: no thread was free within {_PATIENCE:.0f} s")


class Work:
    """Threads for what would keep the event loop too long, few enough to leave it its share of the processor."""

    def __init__(self) -> None:
        self._usual = ThreadPoolExecutor(4, "focusctx large")
        self._huge = ThreadPoolExecutor(1, "focusctx huge")

    async def run(self, size: int, function: Callable[[], T]) -> T:
        """Call the function, which has `size` bytes to work on: here, or on a thread where that takes long."""
        return await self.on_thread(size, function) if size > LARGE else function()

    async def on_thread(self, size: int, function: Callable[[], T]) -> T:
        """Call the function on a thread.

        A caller that is cancelled leaves only after the function has: it may be changing what the caller has locked.
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
            continue  # the caller is on its way out already
