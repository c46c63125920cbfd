"""Haystack: `Agent(chat_generator=FocusChatGenerator(generator, focus), tools=…)`, or in any pipeline.

The agent's `before_llm` hooks write to its state; a chat generator that wraps another one does not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from ..types import Message
from .plug import CHAT, Caller, Source, TenantOf, as_written, fail_open, native_messages, needs, plugged

with needs("haystack"):
    from haystack import component
    from haystack.dataclasses import ChatMessage, StreamingCallbackT
    from haystack.tools import ToolsType


@component
class FocusChatGenerator:
    """Calls another chat generator with the view; the agent's state keeps all messages."""

    def __init__(self, chat_generator: Any, focus: Source, *, tenant: TenantOf | None = None) -> None:
        self.chat_generator = chat_generator
        self.focusctx = plugged(focus, tenant)

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        generation_kwargs: dict[str, Any] | None = None,
        tools: ToolsType | None = None,
        streaming_callback: StreamingCallbackT | None = None,
    ) -> dict[str, Any]:
        more = _said(generation_kwargs=generation_kwargs, tools=tools, streaming_callback=streaming_callback)
        with fail_open():
            given = as_written([_chat(message) for message in messages])
            messages = _chosen(messages, given, self.focusctx.view(given, CHAT, self._caller()))
        answer: dict[str, Any] = self.chat_generator.run(messages=messages, **more)
        return answer

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage],
        generation_kwargs: dict[str, Any] | None = None,
        tools: ToolsType | None = None,
        streaming_callback: StreamingCallbackT | None = None,
    ) -> dict[str, Any]:
        more = _said(generation_kwargs=generation_kwargs, tools=tools, streaming_callback=streaming_callback)
        with fail_open():
            given = as_written([_chat(message) for message in messages])
            messages = _chosen(messages, given, await self.focusctx.aview(given, CHAT, self._caller()))
        if not hasattr(self.chat_generator, "run_async"):
            return await asyncio.to_thread(self.chat_generator.run, messages=messages, **more)
        answer: dict[str, Any] = await self.chat_generator.run_async(messages=messages, **more)
        return answer

    def _caller(self) -> Caller:
        return Caller(model=getattr(self.chat_generator, "model", None), framework="haystack")

    def __getattr__(self, name: str) -> Any:
        if name not in ("warm_up", "warm_up_async", "close", "close_async"):
            raise AttributeError(name)
        return getattr(self.chat_generator, name)


def _said(**options: Any) -> dict[str, Any]:
    """Return the options that were given: not every generator takes every one."""
    return {name: value for name, value in options.items() if value is not None}


def _chosen(messages: Sequence[ChatMessage], given: list[Message], view: list[Message]) -> list[ChatMessage]:
    return native_messages(messages, given, view, line=ChatMessage.from_user, shortened=_shortened)


def _shortened(message: ChatMessage, text: str) -> ChatMessage:
    result = message.tool_call_results[0]
    return ChatMessage.from_tool(text, origin=result.origin, error=result.error)


def _chat(message: ChatMessage) -> Message:
    if message.tool_call_result:
        result = message.tool_call_result
        content = result.result if isinstance(result.result, str) else [_block(part) for part in result.result]
        return {"role": "tool", "tool_call_id": result.origin.id or result.origin.tool_name, "content": content}
    shown = [*message.images, *message.files]
    chat: dict[str, Any] = {"role": message.role.value, "content": "\n".join(message.texts)}
    if shown:
        chat["content"] = [{"type": "text", "text": chat["content"]}, *map(_block, shown)]
    if message.tool_calls:
        chat["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.reasonings:
        chat["reasoning_content"] = "\n".join(reasoning.reasoning_text for reasoning in message.reasonings)
    return chat


def _call(call: Any) -> dict[str, Any]:
    function = {"name": call.tool_name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
    return {"id": call.id or call.tool_name, "type": "function", "function": function}


def _block(part: Any) -> dict[str, Any]:
    """Describe a text, an image or a file."""
    return {"type": "text" if hasattr(part, "text") else "file", **part.to_dict()}
