"""OpenAI's Agents SDK: `RunConfig(call_model_input_filter=FocusFilter(focus))`.

The SDK's items are those of the Responses API, whichever model they go to, so there is nothing to translate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .plug import Caller, Source, TenantOf, fail_open, needs, plugged

with needs("openai-agents"):
    from agents import get_current_trace
    from agents.memory import SessionABC

    from .openai_agents_nested import Nested

if TYPE_CHECKING:
    from agents.memory import Session
    from agents.run import CallModelData, ModelInputData

_FORMAT = "responses"


class FocusFilter:
    """Every call of a model carries a view; the run's items, and the session they are stored in, stay whole.

    A trace's `group_id`, in the `RunConfig`, names the conversation.
    """

    def __init__(self, focus: Source, *, tenant: TenantOf | None = None) -> None:
        self.focusctx = plugged(focus, tenant)

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        items = data.model_data.input
        with fail_open():
            nested = Nested(items)
            group = getattr(get_current_trace(), "group_id", None)
            caller = Caller(id=group, model=_name(data.agent.model), framework="openai_agents")
            items = nested.sent(await self.focusctx.aview(nested.given, _FORMAT, caller))
        return replace(data.model_data, input=items)


class FocusSession(SessionABC):
    """Wraps a session: each run begins with a view of it, and what is stored in it stays whole.

    For chats of many short runs, instead of the filter: the view is made once, when a run begins.
    """

    def __init__(self, session: Session, focus: Source, *, tenant: TenantOf | None = None) -> None:
        self.session = session
        self.session_id = session.session_id
        self.session_settings = session.session_settings
        self.focusctx = plugged(focus, tenant)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        items: list[Any] = await self.session.get_items(limit)
        if limit is None:  # with a limit, the SDK looks at what it stored last
            with fail_open():
                caller = Caller(id=self.session_id, framework="openai_agents")
                items = await self.focusctx.aview(items, _FORMAT, caller)
        return items

    async def add_items(self, items: list[Any]) -> None:
        await self.session.add_items(items)

    async def pop_item(self) -> Any:
        return await self.session.pop_item()

    async def clear_session(self) -> None:
        await self.session.clear_session()


def _name(model: Any) -> str | None:
    """An agent has the name of its model, or an object that has it."""
    name = getattr(model, "model", model)
    return name if isinstance(name, str) else None
