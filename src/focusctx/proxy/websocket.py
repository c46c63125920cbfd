"""A WebSocket between agent and provider: once the two have agreed, all bytes go on as they are, in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import aiohttp
from aiohttp import web

from .asking import Ask, Outgoing
from .forward import pass_down
from .headers import headers_down
from .pool import Pool

if TYPE_CHECKING:
    from aiohttp.http import WebSocketReader

_BUFFER = 64 * 1024
_UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket"}


def is_websocket(request: web.BaseRequest) -> bool:
    return request.method == "GET" and request.headers.get("upgrade", "").lower() == "websocket"


async def pass_both_ways(request: web.BaseRequest, pool: Pool, outgoing: Outgoing) -> web.StreamResponse:
    """Joins two connections. Where the provider refuses, the agent gets the provider's refusal."""
    headers = outgoing.headers.copy()
    headers.update(_UPGRADE)
    ask = Ask(pool, outgoing._replace(headers=headers), None)
    async with ask as answer:
        if not answer.is_upgraded:
            return await pass_down(request, answer)
        below = web.StreamResponse(status=101, reason=answer.reason, headers=headers_down(answer))
        below.headers.update(_UPGRADE)
        below.force_close()
        await below.prepare(request)
        from_below = _Bytes(request.protocol, asyncio.get_running_loop())
        request.protocol.set_parser(cast("WebSocketReader", from_below))
        directions = [
            asyncio.create_task(_pass_on(from_below.stream.iter_any(), ask.connection.write)),
            asyncio.create_task(_pass_on(answer, below.write)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
    return below


async def _pass_on(source: AsyncIterator[bytes], write: Callable[[bytes], Awaitable[None]]) -> None:
    async for chunk in source:
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
