"""A WebSocket between agent and provider, passed on message by message in both directions."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

import aiohttp
from aiohttp import WSMsgType, web

from .forward import Outgoing

_OWN = "sec-websocket-"
"""Headers that each of the two connections makes for itself."""
_Socket: TypeAlias = "web.WebSocketResponse | aiohttp.ClientWebSocketResponse"


def is_websocket(request: web.BaseRequest) -> bool:
    return request.headers.get("upgrade", "").lower() == "websocket"


async def pass_both_ways(
    request: web.BaseRequest, http: aiohttp.ClientSession, outgoing: Outgoing
) -> web.StreamResponse:
    """Joins two sockets. Where the provider refuses, the agent gets the provider's refusal."""
    headers = outgoing.headers.copy()
    protocols = [name.strip() for name in headers.get("sec-websocket-protocol", "").split(",") if name.strip()]
    for name in [name for name in headers if name.lower().startswith(_OWN)]:
        headers.popall(name, None)
    async with http.ws_connect(
        outgoing.url,
        protocols=protocols,
        headers=headers,
        autoping=False,
        max_msg_size=0,
        timeout=aiohttp.ClientWSTimeout(ws_close=10.0),
    ) as above:
        below = web.WebSocketResponse(
            protocols=[above.protocol] if above.protocol else (), autoping=False, max_msg_size=0
        )
        await below.prepare(request)
        directions = [asyncio.create_task(_pass_on(below, above)), asyncio.create_task(_pass_on(above, below))]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            await _close(below, above)
            await _close(above, below)
    return below


async def _pass_on(source: _Socket, target: _Socket) -> None:
    async for message in source:
        if message.type is WSMsgType.TEXT:
            await target.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await target.send_bytes(message.data)
        elif message.type is WSMsgType.PING:
            await target.ping(message.data)
        elif message.type is WSMsgType.PONG:
            await target.pong(message.data)


async def _close(socket: _Socket, other: _Socket) -> None:
    """Close one as the other was closed."""
    if not socket.closed:
        code = other.close_code
        await socket.close(code=code if code and code not in (1005, 1006) else 1000)
