"""Pydantic AI: `Agent(model, tools=tools, capabilities=[FocusHistory(focus)])`.

What a history processor returns becomes the run's history. `prepare_model_request` comes after all of these and
shapes one request only.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..types import Message
from .plug import Plug, Source, fail_open, needs, places

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
    """The model is sent the view; the run's messages stay whole."""

    def __init__(self, focus: Source) -> None:
        super().__init__()
        self._plug = Plug(focus)

    async def prepare_model_request(
        self,
        ctx: Any,  # noqa: ARG002  the framework's signature
        request_context: ModelRequestContext,
    ) -> ModelRequestContext:
        messages = request_context.messages
        with fail_open():
            pieces = [piece for place, message in enumerate(messages) for piece in _pieces(place, message)]
            given = [piece.chat for piece in pieces]
            view = await self._plug.aview(given, "chat_completions", model=request_context.model.model_name)
            messages = _chosen(messages, pieces, view)
        return replace(request_context, messages=messages)


class _Piece(NamedTuple):
    """Some parts of a message that stay or go together, as a chat message."""

    place: int
    parts: tuple[int, ...]
    chat: Message


def _pieces(place: int, message: ModelMessage) -> Iterator[_Piece]:
    """A response is one piece, but for what a provider compacted; in a request every part is one.

    Of a request, the tools' results come first, right behind the calls they answer.
    """
    if isinstance(message, ModelRequest):
        parts = sorted(enumerate(message.parts), key=lambda entry: not _is_result(entry[1]))
        yield from (_Piece(place, (number,), _request_part(part)) for number, part in parts)
        return
    summaries = tuple(number for number, part in enumerate(message.parts) if isinstance(part, CompactionPart))
    if summaries:
        yield _Piece(place, summaries, {"role": "system", "content": "what came before, compacted"})
    turn = tuple(number for number in range(len(message.parts)) if number not in summaries)
    yield _Piece(place, turn, _turn([message.parts[number] for number in turn]))


def _chosen(messages: Sequence[ModelMessage], pieces: Sequence[_Piece], view: Sequence[Message]) -> list[ModelMessage]:
    """The messages of a view: one that is there with all its parts is the run's own object."""
    kept: dict[int | None, dict[int, Any]] = {}
    for chat, found in zip(view, places([piece.chat for piece in pieces], view), strict=True):
        if found is None:
            kept[None] = {0: UserPromptPart(chat["content"])}
            continue
        place, numbers, given = pieces[found]
        for number in numbers:
            part = messages[place].parts[number]
            part = part if chat is given else replace(part, content=chat["content"])
            kept.setdefault(place, {})[number] = part
    return [
        _with(ModelRequest([]) if place is None else messages[place], [parts[number] for number in sorted(parts)])
        for place, parts in kept.items()
    ]


def _with(message: ModelMessage, parts: list[Any]) -> ModelMessage:
    same = len(parts) == len(message.parts) and all(map(operator.is_, parts, message.parts))
    return message if same else replace(message, parts=parts)


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
    """Texts and files; marks of a cache are no content."""
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
