"""Forward answers to the agent, byte for byte and without delay."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterable

from aiohttp import HttpVersion11, web

from .answer import Answer, NoAnswer
from .headers import headers_down


async def pass_down(
    request: web.BaseRequest, answer: Answer, watch: Callable[[bytes], None] | None = None
) -> web.StreamResponse:
    """Send the provider's answer as it arrives; `watch` is called with each piece."""
    headers = headers_down(answer)
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
