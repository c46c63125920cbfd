"""Unpack compressed request bodies up to a limit: a small body may unpack to gigabytes.

A body that ends too early, or goes on after its end, counts as unreadable.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable

import brotli

from .request import LARGE

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


_RATIO = 100
"""Largest factor by which a body may grow when it is unpacked; text rarely reaches a tenth of it."""


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
