"""LangChain 1 and newer: `create_agent(model, tools, middleware=[FocusMiddleware(focus)])`.

Its agents are graphs of LangGraph, and its messages are translated as those.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from .plug import CHAT, Caller, Source, TenantOf, fail_open, needs, plugged

with needs("langchain"):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse

    from .langgraph import as_chat, chosen, conversation_of


class FocusMiddleware(AgentMiddleware):
    """Calls the model with the view; the agent's state keeps every message."""

    def __init__(self, focus: Source, *, tenant: TenantOf | None = None) -> None:
        super().__init__()
        self.focusctx = plugged(focus, tenant)

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        with fail_open():
            given = as_chat(request.messages)
            view = self.focusctx.view(given, CHAT, _caller(request))
            request = request.override(messages=chosen(request.messages, given, view))
        return handler(request)

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        with fail_open():
            given = as_chat(request.messages)
            view = await self.focusctx.aview(given, CHAT, _caller(request))
            request = request.override(messages=chosen(request.messages, given, view))
        return await handler(request)


def _caller(request: ModelRequest) -> Caller:
    model: Any = request.model
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    return Caller(id=conversation_of(), model=name if isinstance(name, str) else None, framework="langchain")
