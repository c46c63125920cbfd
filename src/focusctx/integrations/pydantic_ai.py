"""Pydantic AI: `Agent(model, tools=tools, capabilities=[FocusHistory(focus)])`.

What a history processor returns becomes the run's history. `prepare_model_request` comes after all of these and
shapes one request only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..types import Message
from .plug import CHAT, Caller, ChatPiece, Source, TenantOf, as_written, fail_open, is_whole, kept, needs, plugged

with needs("pydantic-ai"):
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        CachePoint,
        CompactionPart,
        ModelMessage,
        ModelRequest,
        TextContent,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestContext


class FocusHistory(AbstractCapability[Any]):
    """Sends the model the view; the run's messages stay whole."""

    def __init__(self, focus: Source, *, tenant: TenantOf | None = None) -> None:
        super().__init__()
        self.focusctx = plugged(focus, tenant)

    async def prepare_model_request(
        self,
        ctx: Any,
        request_context: ModelRequestContext,
    ) -> ModelRequestContext:
        messages = request_context.messages
        with fail_open():
            pieces = [piece for place, message in enumerate(messages) for piece in _pieces(place, message)]
            given = as_written([piece.chat for piece in pieces])
            name = request_context.model.model_name
            caller = Caller(id=ctx.conversation_id, model=name, framework="pydantic_ai")  # lasts over runs
            view = await self.focusctx.aview(given, CHAT, caller)
            messages = [_sent(messages, place, parts) for place, parts in kept(pieces, view).items()]
        return replace(request_context, messages=messages)


def _pieces(place: int, message: ModelMessage) -> Iterator[ChatPiece]:
    """Yield one piece for a response, and one for what a provider compacted; a request has one for each part.

    Tool results come first in a request, right behind the calls that they answer.
    """
    if isinstance(message, ModelRequest):
        parts = sorted(enumerate(message.parts), key=lambda entry: not _is_result(entry[1]))
        yield from (ChatPiece(place, (number,), _request_part(part)) for number, part in parts)
        return
    summaries = tuple(number for number, part in enumerate(message.parts) if isinstance(part, CompactionPart))
    if summaries:
        yield ChatPiece(place, summaries, {"role": "system", "content": "what came before, compacted"})
    turn = tuple(number for number in range(len(message.parts)) if number not in summaries)
    yield ChatPiece(place, turn, _turn([message.parts[number] for number in turn]))


def _sent(messages: Sequence[ModelMessage], place: int | None, parts: dict[int, str | None]) -> ModelMessage:
    if place is None:
        return ModelRequest([UserPromptPart(str(parts[0]))])
    message = messages[place]
    if is_whole(parts, len(message.parts)):
        return message
    own = ((message.parts[number], text) for number, text in parts.items())
    return replace(message, parts=[part if text is None else replace(part, content=text) for part, text in own])


def _is_result(part: Any) -> bool:
    return getattr(part, "tool_name", None) is not None


def _request_part(part: Any) -> Message:
    if _is_result(part):
        content = part.model_response_str() if isinstance(part, ToolReturnPart) else part.model_response()
        files = _blocks(getattr(part, "files", ()))
        content = [{"type": "text", "text": content}, *files] if files else content
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": content}
    if isinstance(part, UserPromptPart):
        return {"role": "user", "content": part.content if isinstance(part.content, str) else _blocks(part.content)}
    if hasattr(part, "model_response"):  # the framework asks for another try
        return {"role": "user", "content": part.model_response()}
    return {"role": "system", "content": str(getattr(part, "content", part.part_kind))}


def _blocks(content: Sequence[Any]) -> list[dict[str, Any]]:
    """Describe texts and files, without cache marks."""
    return [_block(item) for item in content if not isinstance(item, CachePoint)]


def _block(item: Any) -> dict[str, Any]:
    if hasattr(item, "identifier"):
        return {"type": "file", "file": {"file_id": item.identifier}}
    item = item.content if isinstance(item, TextContent) else item
    return {"type": "text", "text": item if isinstance(item, str) else json.dumps(item, default=str)}


def _turn(parts: Sequence[Any]) -> Message:
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    hidden = [part.content for part in parts if isinstance(part, ThinkingPart)]
    shown = [part for part in parts if not isinstance(part, ToolCallPart | ThinkingPart)]
    chat: dict[str, Any] = {"role": "assistant"}
    # A call that the provider answers itself has arguments, all others have content.
    chat["content"] = _blocks([part.args if hasattr(part, "args") else part.content for part in shown])
    if any(hidden):
        chat["reasoning_content"] = "\n".join(hidden)
    if calls:
        chat["tool_calls"] = [_call(call) for call in calls]
    return chat


def _call(call: ToolCallPart) -> dict[str, Any]:
    function = {"name": call.tool_name, "arguments": call.args_as_json_str()}
    return {"id": call.tool_call_id, "type": "function", "function": function}
