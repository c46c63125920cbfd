"""LangChain 1 and newer: `create_agent(model, tools, middleware=[FocusMiddleware(focus)])`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from .plug import Plug, Source, fail_open, needs

with needs("langchain"):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse

    from .langchain_messages import FORMAT, as_chat, chosen


class FocusMiddleware(AgentMiddleware):
    """The model is called with the view; the agent's state keeps every message."""

    def __init__(self, focus: Source) -> None:
        super().__init__()
        self._plug = Plug(focus)

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        with fail_open():
            given = as_chat(request.messages)
            view = self._plug.view(given, FORMAT, model=_name(request))
            request = request.override(messages=chosen(request.messages, given, view))
        return handler(request)

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        with fail_open():
            given = as_chat(request.messages)
            view = await self._plug.aview(given, FORMAT, model=_name(request))
            request = request.override(messages=chosen(request.messages, given, view))
        return await handler(request)


def _name(request: ModelRequest) -> str | None:
    """The model's name, where it tells one."""
    model: Any = request.model
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    return name if isinstance(name, str) else None
