"""Answers to the agent: a provider's, checked and forwarded byte for byte without delay, and the proxy's own errors."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterable

from aiohttp import ClientError, ClientPayloadError, ClientResponse, HttpVersion11, web
from multidict import CIMultiDict, MultiMapping

from .headers import headers_down

_BROKE_OFF = "the connection broke in the middle of its answer"
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_DECODED = frozenset({"gzip", "deflate", "br", "zstd"})
"""Content encodings that aiohttp decodes."""


class NoAnswer(Exception):
    """A provider gave no answer, or broke off in the middle of one. The message contains no URL and so no key."""

    def __init__(self, why: str, status: int = 502) -> None:
        super().__init__(why)
        self.status = status
        """HTTP status that the agent gets."""


class Answer:
    """An answer whose head has arrived. Iterate over it to read the body piece by piece.

    Raises `NoAnswer` for a head that cannot be forwarded. `is_decoded` means that aiohttp decompresses the body.
    """

    def __init__(self, response: ClientResponse, *, is_decoded: bool = False, is_upgrade: bool = False) -> None:
        _check(response, is_upgrade=is_upgrade)
        self.status = response.status
        self.reason = response.reason or ""
        self.headers: MultiMapping[str] = response.headers
        self.length: int | None = response.content_length
        """Bytes of the body, if the head states them."""
        if is_decoded and _encoding(response.headers) in _DECODED:
            self.headers = CIMultiDict(response.headers)
            self.headers.popall("content-encoding")
            self.length = None
        self._content = response.content
        self._is_chunked = "transfer-encoding" in response.headers
        self._has_length = "content-length" in response.headers
        self._ended_with_connection = False
        protocol = response.connection.protocol if response.connection is not None else None
        self._lost = None if protocol is None or is_upgrade else protocol.closed
        """Done when the connection is lost; None if the whole body arrived before that, and for upgrades."""
        if self._lost is not None:
            self._content.on_eof(self._note_end)
            self._lost.add_done_callback(self._end_if_lost)

    @property
    def ok(self) -> bool:
        return self.status < 400

    @property
    def encoding(self) -> str:
        """Content encoding of the body; empty if it is not compressed."""
        found = _encoding(self.headers)
        return "" if found == "identity" else found

    @property
    def is_complete(self) -> bool:
        """True if the whole body has arrived."""
        return self._content.is_eof() and not self._was_cut()

    def unread(self) -> bytes:
        """Return the bytes of the body that have arrived and were not read yet."""
        return self._content.read_nowait()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await self._content.readany()
        except (ClientError, OSError) as error:
            raise NoAnswer(_BROKE_OFF) from error
        if piece:
            return piece
        if self._was_cut():
            raise NoAnswer(_BROKE_OFF)
        raise StopAsyncIteration

    def close(self) -> None:
        """Stop watching the connection, which may serve another request next."""
        if self._lost is not None:
            self._lost.remove_done_callback(self._end_if_lost)
            self._lost.remove_done_callback(_ignore)
            self._lost.add_done_callback(_ignore)

    def _end_if_lost(self, lost: asyncio.Future[None]) -> None:
        """End the body with an error where aiohttp would keep its reader waiting: after an invalid chunk size."""
        _ignore(lost)
        if not self._content.is_eof() and self._content.exception() is None:
            self._content.set_exception(ClientPayloadError(_BROKE_OFF))

    def _note_end(self) -> None:
        self._ended_with_connection = self._lost is not None and self._lost.done()

    def _was_cut(self) -> bool:
        """True if the body was cut off although aiohttp takes it for complete.

        A chunked body ends with a chunk and not with the connection, but aiohttp misses `chunked` before a tab.
        If the end of the connection is the only sign of the body's end, it must have been closed and not reset.
        """
        if self._lost is None or not self._ended_with_connection:
            return False
        was_reset = self._lost.cancelled() or self._lost.exception() is not None
        return self._is_chunked or (was_reset and not self._has_length)


def _ignore(lost: asyncio.Future[None]) -> None:
    """Retrieve the exception, or asyncio logs that it was never retrieved."""
    if not lost.cancelled():
        lost.exception()


def _check(response: ClientResponse, *, is_upgrade: bool) -> None:
    """Reject heads that an agent would not understand, or that would mislead it about where the body ends."""
    if response.status < 200 and not is_upgrade:
        raise NoAnswer(f"invalid HTTP response: status {response.status:03} was not asked for")
    if _CONTROL.search("".join([response.reason or "", *response.headers.values()])):
        raise NoAnswer("invalid HTTP response: control characters in its head")
    transfer = ",".join(response.headers.getall("transfer-encoding", ())).strip()
    if transfer and transfer.lower() != "chunked":
        raise NoAnswer("invalid HTTP response: unknown transfer encoding")


def _encoding(headers: MultiMapping[str]) -> str:
    return ",".join(headers.getall("content-encoding", ())).strip().lower()


async def pass_down(
    request: web.BaseRequest, answer: Answer, watch: Callable[[bytes], None] | None = None
) -> web.StreamResponse:
    """Send the provider's answer as it arrives; `watch` is called with each piece."""
    headers = headers_down(answer.headers)
    if answer.is_complete and request.method != "HEAD":  # all of it has arrived: one write is enough
        body = answer.unread()
        if watch is not None:
            watch(body)
        return web.Response(status=answer.status, reason=answer.reason, headers=headers, body=body)
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
    response.content_length = answer.length
    await stream_down(request, response, answer if watch is None else _watched(answer, watch))
    return response


async def _watched(chunks: AsyncIterator[bytes], watch: Callable[[bytes], None]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        watch(chunk)
        yield chunk


async def stream_down(request: web.BaseRequest, response: web.StreamResponse, chunks: AsyncIterator[bytes]) -> None:
    """Send a stream chunk by chunk. If it breaks off, cut the agent's connection: it must not look finished."""
    await response.prepare(request)
    try:
        async for chunk in chunks:
            await response.write(chunk)
        await response.write_eof()
    except NoAnswer:
        if request.transport is not None:
            _cut(request.transport, looks_finished=request.version < HttpVersion11)
        raise


def _cut(transport: asyncio.Transport, *, looks_finished: bool) -> None:
    """Cut the connection; with a reset if `looks_finished`, as HTTP/1.0 takes a close for the end of the answer."""
    if looks_finished and (end := transport.get_extra_info("socket")) is not None:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    transport.close()


def refusal(status: int, why: str, headers: Iterable[tuple[str, str]] = ()) -> web.Response:
    """Build an error response of the proxy, in the form that all providers use for errors."""
    text = json.dumps({"type": "error", "error": {"type": "focusctx_error", "message": f"focusctx: {why}"}})
    return web.Response(
        status=status, text=text, content_type="application/json", headers=[*headers, ("x-focusctx-error", "1")]
    )
