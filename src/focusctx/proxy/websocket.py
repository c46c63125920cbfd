"""Relay a WebSocket between agent and provider: messages, pings, pongs and close codes, in both directions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import ClientWebSocketResponse, WSMsgType, web

from .access import refusal
from .client import Answer, Client, Outgoing, pass_down
from .upstream import headers_down, listed

_PASSED_ON = (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.PING, WSMsgType.PONG)
_NORMAL_CLOSE = 1000

Socket: TypeAlias = "web.WebSocketResponse[bool] | ClientWebSocketResponse[bool]"


@dataclass(frozen=True, slots=True)
class Close:
    """The code and reason with which one side closed the WebSocket."""

    code: int
    reason: bytes


async def relay(request: web.BaseRequest, client: Client, outgoing: Outgoing) -> web.StreamResponse:
    """Connect agent and provider. If the provider refuses the WebSocket, the agent gets that answer."""
    if request.content_length or "transfer-encoding" in request.headers:
        return refusal(400, "a WebSocket handshake must not have a body")
    offered = listed(request.headers, "sec-websocket-protocol")
    if not web.WebSocketResponse(protocols=offered).can_prepare(request).ok:
        return refusal(400, "invalid WebSocket handshake")
    compress = "permessage-deflate" in request.headers.get("sec-websocket-extensions", "")
    async with client.open_websocket(outgoing, offered, compress=compress) as (answer, above):
        if above is None:
            return await pass_down(request, answer)
        below = _socket_below(answer, above, compress=compress)
        await below.prepare(request)
        close = await _pass_both_ways(above, below)
        if close is not None:
            await above.close(code=close.code, message=close.reason)
            await below.close(code=close.code, message=close.reason)
        elif request.transport is not None:  # one side vanished: to the other it must not look like a close
            request.transport.abort()
    return below


def _socket_below(
    answer: Answer, above: ClientWebSocketResponse[bool], *, compress: bool
) -> web.WebSocketResponse[bool]:
    below: web.WebSocketResponse[bool] = web.WebSocketResponse(
        protocols=[above.protocol] if above.protocol else [],
        compress=compress,
        autoclose=False,
        autoping=False,
        max_msg_size=0,
        decode_text=False,
    )
    for name, value in headers_down(answer.headers).items():
        if not name.lower().startswith("sec-websocket-"):
            below.headers.add(name, value)
    return below


async def _pass_both_ways(above: Socket, below: Socket) -> Close | None:
    """Forward messages until one side closes the WebSocket; return None if it vanished without closing."""
    directions = [asyncio.create_task(_pass_on(above, below)), asyncio.create_task(_pass_on(below, above))]
    try:
        ended, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for direction in directions:
            direction.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
    return ended.pop().result()


async def _pass_on(source: Socket, sink: Socket) -> Close | None:
    while (message := await source.receive()).type in _PASSED_ON:
        try:
            await sink.send_frame(message.data, message.type)
        except ConnectionError:
            return None
    if message.type is not WSMsgType.CLOSE:
        return None
    return Close(message.data or _NORMAL_CLOSE, (message.extra or "").encode())
