"""The bytes of a request's body: read from the connection within time limits, and unpacked up to a limit.

A small compressed body may unpack to gigabytes. One that ends too early, or goes on after its end, counts as
unreadable.
"""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import AsyncIterator, Callable

import aiohttp
import brotli

from .request import LARGE

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SILENCE = 120.0
"""Seconds within which the next piece of a body must arrive."""
GRACE, RATE = 60.0, 1024
"""A body that is held in memory must arrive at RATE bytes per second on average, after GRACE seconds."""
_RATIO = 100
"""Largest factor by which a body may grow when it is unpacked; text rarely reaches a tenth of it."""


class TooSlow(Exception):
    """The client sends its request too slowly."""


async def read_up_to(content: aiohttp.StreamReader, limit: int) -> tuple[bytes, bool]:
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


async def read_pieces(content: aiohttp.StreamReader, begun: bytes = b"") -> AsyncIterator[bytes]:
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


def unpacked_limit(packed: int, limit: int) -> int:
    """Return how many bytes a compressed body of `packed` bytes may unpack to."""
    return min(limit, max(_RATIO * packed, LARGE))


def unpack(body: bytes, encoding: str, limit: int) -> bytes | None:
    """Return the unpacked body; None if it cannot be unpacked or is longer than `limit`."""
    for name in reversed(encoding.lower().replace(" ", "").split(",")):
        if name in ("", "identity"):
            continue
        unpacker = _UNPACKERS.get(name)
        if unpacker is None:
            return None
        try:
            body = unpacker(body, limit + 1)
        except (zlib.error, brotli.error, zstd.ZstdError, EOFError, ValueError):
            return None
        if len(body) > limit:
            return None
    return body


def _zlib(window: int) -> Callable[[bytes, int], bytes]:
    def unpacked(body: bytes, most: int) -> bytes:
        unpacker = zlib.decompressobj(window)
        result = unpacker.decompress(body, most)
        if len(result) < most and (not unpacker.eof or unpacker.unused_data):
            raise EOFError
        return result

    return unpacked


def _deflate(body: bytes, most: int) -> bytes:
    """Unpack both variants of `deflate`: with zlib's header, and without."""
    try:
        return _zlib(zlib.MAX_WBITS)(body, most)
    except zlib.error:
        return _zlib(-zlib.MAX_WBITS)(body, most)


def _brotli(body: bytes, most: int) -> bytes:
    unpacker = brotli.Decompressor()
    result: bytes = unpacker.process(body, output_buffer_limit=most)
    while len(result) < most and not unpacker.is_finished():
        more = unpacker.process(b"", output_buffer_limit=most - len(result))
        if not more:
            raise EOFError
        result += more
    return result


def _zstd(body: bytes, most: int) -> bytes:
    unpacker = zstd.ZstdDecompressor()
    result: bytes = unpacker.decompress(body, most)
    if len(result) < most and (not unpacker.eof or unpacker.unused_data):
        raise EOFError
    return result


_UNPACKERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _zlib(zlib.MAX_WBITS | 16),
    "x-gzip": _zlib(zlib.MAX_WBITS | 16),
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
