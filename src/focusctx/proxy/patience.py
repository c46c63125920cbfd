"""Time limits for clients that send slowly, or nothing at all.

aiohttp has one timer, for connections between requests. This module adds one that runs from the first byte of a
request's head to its last, and requires that a body keeps coming.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
from aiohttp import web

KEEP_ALIVE = 630.0
"""Seconds that a connection may be idle between requests: longer than load balancers keep theirs."""
HEAD = 30.0
"""Seconds within which a head must be complete, counted from its first byte or from the start of the connection."""
SILENCE = 120.0
"""Seconds within which the next piece of a body must arrive."""
GRACE, RATE = 60.0, 1024
"""A body that is held in memory must arrive at RATE bytes per second on average, after GRACE seconds."""


class TooSlow(Exception):
    """The client sends its request too slowly."""


class Connections:
    """Creates the protocol objects of a server's connections, and cuts off clients that do not finish a head."""

    def __init__(self, make: Callable[[], asyncio.Protocol]) -> None:
        self._make = make
        self._waiting: dict[_Connection, float] = {}
        """Time at which each incomplete head began, oldest first."""

    def __call__(self) -> asyncio.Protocol:
        return _Connection(self._make(), self._waiting)

    async def cut_off(self) -> None:
        """Abort connections whose head takes too long. Runs until it is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(HEAD / 10)
            late = clock() - HEAD
            while self._waiting and (oldest := next(iter(self._waiting.items())))[1] < late:
                del self._waiting[oldest[0]]
                oldest[0].abort()


class _Connection(asyncio.Protocol):
    """Wraps aiohttp's protocol and records when a head begins. `note_request` reports when it is complete.

    If a head follows another request without a pause, its time is counted only from the next byte received: until
    then the connection looks idle from here.
    """

    def __init__(self, protocol: asyncio.Protocol, waiting: dict[_Connection, float]) -> None:
        self._protocol = protocol
        self._waiting = waiting
        self._is_idle = False
        self._transport: asyncio.BaseTransport | None = None
        self._clock = asyncio.get_running_loop().time

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._waiting[self] = self._clock()
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            self._is_idle = False
            self._waiting[self] = self._clock()
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._waiting.pop(self, None)
        self._protocol.connection_lost(error)

    def abort(self) -> None:
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()

    def begin_request(self) -> None:
        self._is_idle = False
        self._waiting.pop(self, None)

    def end_request(self) -> None:
        self._is_idle = True


@web.middleware
async def note_request(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Tell the connection when a head is complete, and when the request has been answered."""
    connection = request.transport.get_protocol() if request.transport is not None else None
    if not isinstance(connection, _Connection):
        return await handler(request)
    connection.begin_request()
    try:
        return await handler(request)
    finally:
        connection.end_request()


async def read_held(content: aiohttp.StreamReader, limit: int) -> tuple[bytes, bool]:
    """Read a body up to slightly more than `limit`. Returns the bytes, and True if they are the whole body."""
    clock = asyncio.get_running_loop().time
    began, pieces, size = clock(), list[bytes](), 0
    while size <= limit:
        piece = await _next(content, min(clock() + SILENCE, began + GRACE + size / RATE))
        if not piece:
            return b"".join(pieces), True
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces), False


async def read_on(content: aiohttp.StreamReader, begun: bytes = b"") -> AsyncIterator[bytes]:
    """Yield a body as it arrives, after the part that was read before."""
    clock = asyncio.get_running_loop().time
    piece = begun or await _next(content, clock() + SILENCE)
    while piece:
        yield piece
        piece = await _next(content, clock() + SILENCE)


async def _next(content: aiohttp.StreamReader, until: float) -> bytes:
    """Return the next bytes of a body; empty at its end. Raises `TooSlow` if none arrive by `until`."""
    try:
        async with asyncio.timeout_at(until):
            return await content.readany()
    except TimeoutError:
        raise TooSlow("the client sends its request too slowly") from None
