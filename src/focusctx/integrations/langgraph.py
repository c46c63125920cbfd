"""LangGraph: `model.invoke(focused(state["messages"]))` in a node, with `focused = FocusMessages(focus)`.

The prebuilt agent takes it as its prompt: `create_react_agent(model, tools, prompt=FocusMessages(focus))`. Nothing is
written to the graph's state, so its checkpoints do not grow. `langchain.py` translates messages with these functions,
too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..types import Message
from .plug import CHAT, Caller, Source, TenantOf, as_written, fail_open, native_messages, needs, plugged

with needs("langgraph"):
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
    from langchain_core.runnables import Runnable, RunnableConfig
    from langchain_core.runnables.config import ensure_config

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function"}
_ELSEWHERE = {"tool_call", "tool_call_chunk", "invalid_tool_call", "reasoning", "non_standard"}
"""Content blocks that a chat message has in other fields, or not at all."""


class FocusMessages(Runnable[Any, list[Any]]):
    """Turns messages, or a state that has them, into the messages to send. Call it, or make it part of a chain."""

    def __init__(self, focus: Source, *, tenant: TenantOf | None = None) -> None:
        self.focusctx = plugged(focus, tenant)

    def __call__(self, messages: Any, config: RunnableConfig | None = None) -> list[Any]:
        return self.invoke(messages, config)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> list[Any]:
        messages = _messages(input)
        with fail_open():
            given = as_chat(messages)
            return chosen(messages, given, self.focusctx.view(given, CHAT, _caller(config)))
        return messages

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> list[Any]:
        messages = _messages(input)
        with fail_open():
            given = as_chat(messages)
            return chosen(messages, given, await self.focusctx.aview(given, CHAT, _caller(config)))
        return messages


def _caller(config: RunnableConfig | None) -> Caller:
    return Caller(id=conversation_of(config), framework="langgraph")


def _messages(given: Any) -> list[Any]:
    """Return the messages of a graph's state, which is a mapping or an object, or of a list."""
    if isinstance(given, list | tuple):
        return list(given)
    return list(given["messages"] if isinstance(given, Mapping) else given.messages)


def conversation_of(config: RunnableConfig | None = None) -> str | None:
    """Name the graph's thread, with the place of a graph that runs inside another one; None without a thread."""
    known = ensure_config(config).get("configurable", {})
    thread = known.get("thread_id")
    outer, _, _ = str(known.get("checkpoint_ns", "")).rpartition("|")
    return None if thread is None else f"{thread}|{outer}" if outer else str(thread)


def as_chat(messages: Sequence[BaseMessage]) -> list[Message]:
    """Return one chat message for each of LangChain's."""
    return as_written([_chat(message) for message in messages])


def chosen(messages: Sequence[BaseMessage], given: Sequence[Message], view: Sequence[Message]) -> list[Any]:
    """Return LangChain's own messages for a view of what `as_chat` gave."""
    return native_messages(messages, given, view, line=lambda text: HumanMessage(content=text), shortened=_shortened)


def _shortened(message: BaseMessage, text: str) -> BaseMessage:
    return message.model_copy(update={"content": text})


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
    """Return the model's reasoning before it spoke."""
    blocks = [] if isinstance(message.content, str) else message.content_blocks
    return "\n".join(str(block.get("reasoning", "")) for block in blocks if block["type"] == "reasoning")


def _call(call: Any) -> dict[str, Any]:
    arguments = call["args"] if isinstance(call["args"], str) else json.dumps(call["args"], ensure_ascii=False)
    return {"id": call["id"] or "", "type": "function", "function": {"name": call["name"], "arguments": arguments}}
