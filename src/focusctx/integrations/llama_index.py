"""LlamaIndex: `FunctionAgent(llm=focused(llm, focus), tools=…)`, and any other agent or chat engine with that LLM.

The agents keep the steps of a run outside of their memory until it ends, so a memory would see none of them. All
steps, and all of the memory, come together where the LLM is called.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from ..types import Message
from .plug import Plug, Source, fail_open, needs, places

with needs("llama-index"):
    from llama_index.core.llms import LLM, ChatMessage, TextBlock

Model = TypeVar("Model", bound=LLM)

_FORMAT = "chat_completions"
_ELSEWHERE = {"text", "tool_call", "thinking"}
"""Blocks that a chat message has as its text, or in fields of their own."""


def focused(llm: Model, focus: Source) -> Model:
    """A copy of the LLM whose chats carry views; of the same class, the same in everything else."""
    plug, kind = Plug(focus), type(llm)

    class Focused(kind):  # type: ignore[misc, valid-type]
        def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
            with fail_open():
                messages = view(messages)
            return llm.chat(messages, **kwargs)

        def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
            with fail_open():
                messages = view(messages)
            return llm.stream_chat(messages, **kwargs)

        async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
            with fail_open():
                messages = await aview(messages)
            return await llm.achat(messages, **kwargs)

        async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
            with fail_open():
                messages = await aview(messages)
            return await llm.astream_chat(messages, **kwargs)

    def view(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        given = [_chat(message) for message in messages]
        return _chosen(messages, given, plug.view(given, _FORMAT, model=llm.metadata.model_name))

    async def aview(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        given = [_chat(message) for message in messages]
        return _chosen(messages, given, await plug.aview(given, _FORMAT, model=llm.metadata.model_name))

    copy: Model = llm.model_copy()
    object.__setattr__(copy, "__class__", Focused)
    return copy


def _chosen(messages: Sequence[ChatMessage], given: list[Message], view: list[Message]) -> list[ChatMessage]:
    found = zip(view, places(given, view), strict=True)
    return [
        ChatMessage(content=chat["content"]) if place is None else _changed(messages[place], given[place], chat)
        for chat, place in found
    ]


def _changed(message: ChatMessage, given: Message, chat: Message) -> ChatMessage:
    return message if chat is given else message.model_copy(update={"blocks": [TextBlock(text=chat["content"])]})


def _chat(message: ChatMessage) -> Message:
    blocks = [block.model_dump(mode="json", exclude_none=True) for block in message.blocks]
    chat: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if any(block["block_type"] not in _ELSEWHERE for block in blocks):
        chat["content"] = [{**block, "type": block["block_type"]} for block in blocks]
    more = message.additional_kwargs
    if "tool_call_id" in more:
        chat["tool_call_id"] = more["tool_call_id"]
    calls = [_call(block) for block in blocks if block["block_type"] == "tool_call"]
    if calls := calls or [_plain(call) for call in more.get("tool_calls") or ()]:
        chat["tool_calls"] = calls
    if hidden := [block.get("content", "") for block in blocks if block["block_type"] == "thinking"]:
        chat["reasoning_content"] = "\n".join(hidden)
    return chat


def _call(block: dict[str, Any]) -> dict[str, Any]:
    name, arguments = block["tool_name"], block.get("tool_kwargs", "")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": block.get("tool_call_id", name), "type": "function", "function": {"name": name, "arguments": text}}


def _plain(call: Any) -> dict[str, Any]:
    """Older LLM packages keep calls in their provider's own form."""
    return call if isinstance(call, dict) else call.model_dump(mode="json", exclude_none=True)
