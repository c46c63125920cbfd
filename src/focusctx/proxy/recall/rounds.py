"""Offer the model the recall tool, and answer its calls: the provider is asked in rounds, the agent sees one answer.

The last round that the limit allows is requested without the tool. If the model calls it anyway, the call is not
answered: the agent sees the rest of the answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from aiohttp import web

from ...session.recall import TOOL, recall_tool, unavailable
from ...types import Message
from ...wire.foreign import HELD_BY
from ..client import Answer, Client, NoAnswer, Outgoing, pass_down, stream_down
from ..conversations import LiveConversation
from ..request import Fields, decode, encode, read_list, write_fields, write_list
from ..upstream import headers_down
from .anthropic import AnthropicTurn
from .chat_completions import ChatCompletionsTurn
from .responses import ResponsesTurn
from .turn import Turn

_log = logging.getLogger("focusctx.proxy")

_TURNS: dict[str, Callable[[], Turn[Any]]] = {
    "chat_completions": ChatCompletionsTurn,
    "responses": ResponsesTurn,
    "anthropic": AnthropicTurn,
}
RECALLED = frozenset(_TURNS)
"""Formats in which the proxy offers the tool."""
_ELSEWHERE = (*HELD_BY, "background")
"""Fields with which the provider keeps the rounds, or the agent may ask for one of them by its id."""
ROUNDS = 3
"""Most times that the provider is asked again in one turn."""
_SILENCE = 10.0
"""Seconds without output after which the agent is sent a sign of life."""


def turn_for(format: str) -> Turn[Any]:
    """Return a `Turn` for the answer to a request that offers the tool."""
    return _TURNS[format]()


def offer(fields: Fields, format: str) -> Fields | None:
    """Return the fields to change; None if the tool is not offered, and the answer is then forwarded unchanged.

    It is offered to agents that use tools, have none of this name, leave the choice to the model and want one answer.
    """
    tools = read_list(fields.get("tools", b""))
    if not tools or any(_tool_name(tool) == TOOL for tool in tools):
        return None
    if decode(fields.get("n")) not in (None, 1) or any(decode(fields.get(name)) for name in _ELSEWHERE):
        return None
    choice = decode(fields.get("tool_choice"))
    if isinstance(choice, dict):
        choice = choice.get("type") if format == "anthropic" else "one of them"
    if choice not in (None, "auto", "any", "required"):
        return None
    return {"tools": write_list([*tools, encode(recall_tool(format))])}


def next_round(fields: Fields, format: str, extra: Sequence[Message], *, offer_tool: bool) -> Fields:
    """Return the request with the messages of the rounds so far, and without the tool unless `offer_tool` is set."""
    history = "input" if format == "responses" else "messages"
    messages = [*(read_list(fields[history]) or ()), *map(encode, extra)]
    fields = {**fields, history: write_list(messages)}
    if not offer_tool:
        tools = read_list(fields["tools"]) or ()
        fields["tools"] = write_list([tool for tool in tools if _tool_name(tool) != TOOL])
    return fields


def _tool_name(tool: bytes) -> object:
    definition = decode(tool)
    if not isinstance(definition, dict):
        return None
    function = definition.get("function")
    return function.get("name") if isinstance(function, dict) else definition.get("name")


class RecallRounds:
    """One turn of the agent. Spans that the model recalls return to the conversation's views with the next step."""

    def __init__(self, client: Client, outgoing: Outgoing, live: LiveConversation, fields: Fields) -> None:
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
                except LaterRefusal as later:
                    return _response(later.answer, later.body)
                response = web.StreamResponse(
                    status=first.status, reason=first.reason, headers=headers_down(first.headers)
                )
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
                raise NoAnswer(
                    "it compressed its answer in a way that recall cannot read: start the proxy without --recall"
                )
            yield answer

    async def _recall(self, query: str) -> str:
        return await asyncio.to_thread(self._live.recall, query)


class Readable(Protocol):
    """A provider's answer with an uncompressed body."""

    @property
    def ok(self) -> bool: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...


A = TypeVar("A", bound=Readable)
A_co = TypeVar("A_co", bound=Readable, covariant=True)
Recall: TypeAlias = Callable[[str], Awaitable[str]]


class AskAgain(Protocol[A_co]):
    def __call__(self, extra: list[Message], *, offer_tool: bool) -> AbstractAsyncContextManager[A_co]:
        """Send the agent's request again with `extra` after its own messages, with or without the recall tool."""


class LaterRefusal(Exception, Generic[A]):
    """The provider refused a later round before the agent was shown anything: the refusal can be forwarded as it is."""

    def __init__(self, answer: A, body: bytes) -> None:
        super().__init__("a later round was refused")
        self.answer = answer
        self.body = body


async def stream(
    turn: Turn[Any], first: A, ask_again: AskAgain[A], recall: Recall, *, rounds: int = ROUNDS
) -> AsyncGenerator[bytes, None]:
    """Yield what the agent gets.

    If the first round breaks off, so does this stream, as it would without the proxy. If a later round fails, the
    stream ends with an error event as the provider writes it, or with `LaterRefusal` for a refusal before anything was
    shown.
    """
    answer, shown_at, silent = first, time.monotonic(), True
    async with AsyncExitStack() as held_open:
        for left in range(rounds, -1, -1):
            try:
                async for chunk in answer:
                    shown = turn.feed(chunk)
                    if not shown and time.monotonic() - shown_at > _SILENCE:
                        shown = turn.keep_alive()
                    if shown:
                        yield shown
                        shown_at, silent = time.monotonic(), False
            except Exception:
                if answer is first:
                    raise
                _log.warning("the provider's answer after a recall broke off: the agent gets an error", exc_info=True)
                yield turn.fail(b"")
                return
            ending = turn.end(last=not left)
            if ending.rest:
                yield ending.rest
                silent = False
            if not ending.queries:
                return
            extra = turn.answer([await _recalled(recall, query) for query in ending.queries])
            try:
                answer = await held_open.enter_async_context(ask_again(extra, offer_tool=left > 1))
                refusal = None if answer.ok else await _body(answer)
            except Exception:
                _log.warning("the request after a recall failed: the agent gets an error", exc_info=True)
                yield turn.fail(b"")
                return
            if refusal is not None:
                if silent:
                    raise LaterRefusal(answer, refusal)
                yield turn.fail(refusal)
                return


async def whole(
    turn: Turn[Any], first: A, ask_again: AskAgain[A], recall: Recall, *, rounds: int = ROUNDS
) -> tuple[A, bytes]:
    """Return the answer whose status and headers the agent gets, and the body for it.

    That is the last answer, or the refusal of a later round. Exceptions of `ask_again` are passed on.
    """
    answer = first
    async with AsyncExitStack() as held_open:
        for left in range(rounds, -1, -1):
            body = await _body(answer)
            if not answer.ok:
                break
            ending = turn.whole(body, last=not left)
            if not ending.queries:
                return answer, ending.rest
            extra = turn.answer([await _recalled(recall, query) for query in ending.queries])
            answer = await held_open.enter_async_context(ask_again(extra, offer_tool=left > 1))
        return answer, body


async def _recalled(recall: Recall, query: str) -> str:
    try:
        return await recall(query)
    except Exception:
        _log.exception("recall failed: the model gets a note that it is unavailable")
        return unavailable(query)


async def _body(answer: Readable) -> bytes:
    return b"".join([chunk async for chunk in answer])


def _response(answer: Answer, body: bytes) -> web.Response:
    return web.Response(status=answer.status, reason=answer.reason, headers=headers_down(answer.headers), body=body)


async def _chained(begun: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield begun
    async for chunk in rest:
        yield chunk
