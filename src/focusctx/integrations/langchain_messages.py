"""LangChain's messages as chat messages, and back, for its integration and LangGraph's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from ..types import Message
from .plug import as_written, places

FORMAT = "chat_completions"
_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function"}
_ELSEWHERE = {"tool_call", "tool_call_chunk", "invalid_tool_call", "reasoning", "non_standard"}
"""Content blocks that a chat message has in fields of their own, or not at all."""


def conversation_of(config: RunnableConfig | None = None) -> str | None:
    """The graph's thread, and the place in it of a graph that runs inside another one; None without a thread."""
    known = ensure_config(config).get("configurable", {})
    thread = known.get("thread_id")
    outer, _, _ = str(known.get("checkpoint_ns", "")).rpartition("|")
    return None if thread is None else f"{thread}|{outer}" if outer else str(thread)


def as_chat(messages: Sequence[BaseMessage]) -> list[Message]:
    """One chat message for each message."""
    return as_written([_chat(message) for message in messages])


def chosen(messages: Sequence[BaseMessage], given: Sequence[Message], view: Sequence[Message]) -> list[Any]:
    """LangChain's own messages for a view of what `as_chat` gave."""
    found = zip(view, places(given, view), strict=True)
    return [
        HumanMessage(content=chat["content"]) if place is None else _changed(messages[place], given[place], chat)
        for chat, place in found
    ]


def _changed(message: BaseMessage, given: Message, chat: Message) -> BaseMessage:
    return message if chat is given else message.model_copy(update={"content": chat["content"]})


def _chat(message: BaseMessage) -> Message:
    chat: dict[str, Any] = {"role": _ROLES.get(message.type, "system"), "content": _content(message)}
    if isinstance(message, ToolMessage):
        chat["tool_call_id"] = message.tool_call_id
    if isinstance(message, AIMessage):
        if calls := [*message.tool_calls, *message.invalid_tool_calls]:
            chat["tool_calls"] = [_call(call) for call in calls]
        if hidden := _hidden(message):
            chat["reasoning_content"] = hidden
    return chat


def _content(message: BaseMessage) -> str | list[Any]:
    if isinstance(message.content, str):
        return message.content
    return [block for block in message.content_blocks if block["type"] not in _ELSEWHERE]


def _hidden(message: BaseMessage) -> str:
    """The model's reasoning before it spoke."""
    blocks = [] if isinstance(message.content, str) else message.content_blocks
    return "\n".join(str(block.get("reasoning", "")) for block in blocks if block["type"] == "reasoning")


def _call(call: Any) -> dict[str, Any]:
    arguments = call["args"] if isinstance(call["args"], str) else json.dumps(call["args"], ensure_ascii=False)
    return {"id": call["id"] or "", "type": "function", "function": {"name": call["name"], "arguments": arguments}}
