"""LangGraph: `model.invoke(focused(state["messages"]))` in a node, with `focused = FocusMessages(focus)`.

The prebuilt agent takes it as its prompt: `create_react_agent(model, tools, prompt=FocusMessages(focus))`. Nothing is
written to the graph's state, so its checkpoints do not grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .plug import Caller, Source, TenantOf, fail_open, needs, plugged

with needs("langgraph"):
    from langchain_core.runnables import Runnable, RunnableConfig

    from .langchain_messages import FORMAT, as_chat, chosen, conversation_of


class FocusMessages(Runnable[Any, list[Any]]):
    """Turns messages, or a state that has them, into the messages to send. Can be called, and be part of a chain."""

    def __init__(self, focus: Source, *, tenant: TenantOf | None = None) -> None:
        self.focusctx = plugged(focus, tenant)

    def __call__(self, messages: Any, config: RunnableConfig | None = None) -> list[Any]:
        return self.invoke(messages, config)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> list[Any]:
        messages = _messages(input)
        with fail_open():
            given = as_chat(messages)
            return chosen(messages, given, self.focusctx.view(given, FORMAT, _caller(config)))
        return messages

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> list[Any]:
        messages = _messages(input)
        with fail_open():
            given = as_chat(messages)
            return chosen(messages, given, await self.focusctx.aview(given, FORMAT, _caller(config)))
        return messages


def _caller(config: RunnableConfig | None) -> Caller:
    return Caller(id=conversation_of(config), framework="langgraph")


def _messages(given: Any) -> list[Any]:
    """The messages of a graph's state, which is a mapping or an object, or of a list."""
    if isinstance(given, list | tuple):
        return list(given)
    return list(given["messages"] if isinstance(given, Mapping) else given.messages)
