"""LangGraph: `create_react_agent(model, tools, pre_model_hook=focus_hook(focus))`, or a node before your model's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .plug import Plug, Source, fail_open, needs

with needs("langgraph"):
    from langchain_core.runnables import Runnable, RunnableLambda

    from .langchain_messages import FORMAT, as_chat, chosen


def focus_hook(focus: Source) -> Runnable[Any, dict[str, Any]]:
    """Reads the state's `messages` and returns `llm_input_messages`; the state's own messages stay as they are."""
    plug = Plug(focus)

    def hook(state: Any) -> dict[str, Any]:
        messages = _messages(state)
        with fail_open():
            given = as_chat(messages)
            messages = chosen(messages, given, plug.view(given, FORMAT))
        return {"llm_input_messages": messages}

    async def ahook(state: Any) -> dict[str, Any]:
        messages = _messages(state)
        with fail_open():
            given = as_chat(messages)
            messages = chosen(messages, given, await plug.aview(given, FORMAT))
        return {"llm_input_messages": messages}

    return RunnableLambda(hook, afunc=ahook, name="focus")


def _messages(state: Any) -> list[Any]:
    """A graph's state is a mapping or an object."""
    return list(state["messages"] if isinstance(state, Mapping) else state.messages)
