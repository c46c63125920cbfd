"""OpenAI's Agents SDK: `RunConfig(call_model_input_filter=focus_filter(focus))`.

The SDK's items are those of the Responses API, whichever model they go to, so there is nothing to translate.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .plug import Plug, Source, fail_open, needs

with needs("openai-agents"):
    from agents.memory import SessionABC

if TYPE_CHECKING:
    from agents.memory import Session
    from agents.run import CallModelData, ModelInputData

_FORMAT = "responses"


def focus_filter(focus: Source) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
    """Every call of a model carries a view; the run's items, and the session they are stored in, stay whole."""
    plug = Plug(focus)

    async def call_with_view(data: CallModelData[Any]) -> ModelInputData:
        items = data.model_data.input
        with fail_open():
            items = await plug.aview(items, _FORMAT, model=_name(data.agent.model))
        return replace(data.model_data, input=items)

    return call_with_view


class FocusSession(SessionABC):
    """Another session, out of which each run is given a view; what is stored in it stays whole.

    For chats of many short runs, instead of the filter: the view is made once, when a run begins.
    """

    def __init__(self, session: Session, focus: Source) -> None:
        self.session = session
        self.session_id = session.session_id
        self.session_settings = session.session_settings
        self._plug = Plug(focus)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        items: list[Any] = await self.session.get_items(limit)
        if limit is None:  # with a limit, the SDK looks at what it stored last
            with fail_open():
                items = await self._plug.aview(items, _FORMAT)
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
