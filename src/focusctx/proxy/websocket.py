"""A WebSocket between agent and provider: once the two have agreed, all bytes go on as they are, in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import aiohttp
from aiohttp import web
from aiohttp.http import StreamWriter

from .asking import Ask, Outgoing
from .forward import pass_down
from .headers import headers_down

if TYPE_CHECKING:
    from aiohttp.http import WebSocketReader

_BUFFER = 64 * 1024
_UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket"}


def is_websocket(request: web.BaseRequest) -> bool:
    return request.method == "GET" and request.headers.get("upgrade", "").lower() == "websocket"


async def pass_both_ways(
    request: web.BaseRequest, http: aiohttp.ClientSession, outgoing: Outgoing
) -> web.StreamResponse:
    """Joins two connections. Where the provider refuses, the agent gets the provider's refusal."""
    headers = outgoing.headers.copy()
    headers.update(_UPGRADE)
    async with Ask(http, replace(outgoing, headers=headers), None) as answer:
        above = answer.connection.protocol if answer.connection is not None else None
        if answer.status != 101 or above is None:
            return await pass_down(request, answer)
        below = web.StreamResponse(status=101, reason=answer.reason, headers=headers_down(answer))
        below.headers.update(_UPGRADE)
        below.force_close()
        await below.prepare(request)
        loop = asyncio.get_running_loop()
        from_below, from_above = _Bytes(request.protocol, loop), _Bytes(above, loop)
        request.protocol.set_parser(cast("WebSocketReader", from_below))
        above.set_parser(from_above, from_above.stream)
        directions = [
            asyncio.create_task(_pass_on(from_below.stream, StreamWriter(above, loop).write)),
            asyncio.create_task(_pass_on(from_above.stream, below.write)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
    return below


async def _pass_on(source: aiohttp.StreamReader, write: Callable[[bytes], Awaitable[None]]) -> None:
    async for chunk in source.iter_any():
        await write(chunk)


class _Bytes:
    """Stands where aiohttp expects a reader of frames. Frames are for the two ends to read."""

    def __init__(self, protocol: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.stream = aiohttp.StreamReader(protocol, _BUFFER, loop=loop)

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.stream.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self.stream.feed_eof()
