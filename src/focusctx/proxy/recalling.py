"""Requests that offer the model the recall tool: the proxy answers its calls, and the agent sees one answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

from aiohttp import web

from ..types import Message
from .answer import Answer, NoAnswer
from .body import Fields, write_fields
from .client import Client, Outgoing
from .forward import pass_down, stream_down
from .headers import headers_down
from .recall.loop import Refused, stream, whole
from .recall.request import next_round, turn_for
from .sessions import Live


class Recalling:
    """One turn of the agent. Spans that the model recalls return to the conversation's views with the next step."""

    def __init__(self, client: Client, outgoing: Outgoing, live: Live, fields: Fields) -> None:
        self._client = client
        self._outgoing = outgoing
        self._live = live
        self._fields = fields
        self.turn = turn_for(live.key.format)

    async def answer(
        self, request: web.BaseRequest, body: bytes, watch: Callable[[bytes], None] | None
    ) -> web.StreamResponse:
        self._outgoing.headers["accept-encoding"] = "identity"  # the proxy parses the answers
        async with self._ask(body) as first:
            if not first.ok:
                return await pass_down(request, first, watch)
            if not first.headers.get("content-type", "").lower().startswith("text/event-stream"):
                last, answered = await whole(self.turn, first, self._ask_again, self._recall)
                return _response(last, answered)
            async with aclosing(stream(self.turn, first, self._ask_again, self._recall)) as shown:
                try:
                    begun = await anext(shown, b"")
                except Refused as refused:
                    return _response(refused.answer, refused.body)
                response = web.StreamResponse(status=first.status, reason=first.reason, headers=headers_down(first))
                await stream_down(request, response, _chained(begun, shown))
                return response

    def _ask_again(self, extra: list[Message], *, offer_tool: bool) -> AbstractAsyncContextManager[Answer]:
        fields = next_round(self._fields, self._live.key.format, extra, offer_tool=offer_tool)
        return self._ask(write_fields(fields))

    @asynccontextmanager
    async def _ask(self, body: bytes) -> AsyncIterator[Answer]:
        """Request an answer. Raise if it cannot be read: forwarded, it might show the agent a call of our tool."""
        async with self._client.ask(self._outgoing, body, decode=True) as answer:
            if answer.ok and answer.encoding:
                raise NoAnswer("it compressed its answer in a way that recall cannot read: serve it without --recall")
            yield answer

    async def _recall(self, query: str) -> str:
        return await asyncio.to_thread(self._live.recall, query)


def _response(answer: Answer, body: bytes) -> web.Response:
    return web.Response(status=answer.status, reason=answer.reason, headers=headers_down(answer), body=body)


async def _chained(begun: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield begun
    async for chunk in rest:
        yield chunk
