"""CrewAI: `Agent(role=…, llm=focused(LLM(…), focus), tools=…)`, in crews and flows.

CrewAI's LLM hooks edit the agent's own messages, so the LLM itself is wrapped: it gets the messages for one call.
"""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

from ..types import Message
from .plug import CHAT, Caller, Plug, Source, TenantOf, attach, fail_open, needs, plugged, subclass

with needs("crewai"):
    from crewai import BaseLLM
    from pydantic import PrivateAttr

_Kind = TypeVar("_Kind", bound=BaseLLM)


def focused(llm: _Kind, focus: Source, *, tenant: TenantOf | None = None) -> _Kind:
    """Return a copy of the LLM whose calls carry views; it is of the same class."""
    changed = copy(llm)
    object.__setattr__(changed, "__class__", subclass(_focused, type(llm)))
    attach(changed, plugged(focus, tenant))
    return changed


def _focused(kind: type[Any]) -> type[Any]:
    class Focused(kind):
        _focusctx: Plug = PrivateAttr()

        @property
        def focusctx(self) -> Plug:
            return self._focusctx

        def call(self, messages: str | list[Message], *args: Any, **kwargs: Any) -> Any:
            return super().call(self._view(messages), *args, **kwargs)

        async def acall(self, messages: str | list[Message], *args: Any, **kwargs: Any) -> Any:
            with fail_open():
                if isinstance(messages, list):
                    messages = await self._focusctx.aview(messages, CHAT, self._caller())
            return await super().acall(messages, *args, **kwargs)

        def is_context_window_overflowing_threshold(
            self, messages: str | list[Message], *args: Any, **kwargs: Any
        ) -> Any:
            """Measure the view: if that does not fit, CrewAI summarises its history."""
            return super().is_context_window_overflowing_threshold(self._view(messages), *args, **kwargs)

        def _view(self, messages: str | list[Message]) -> str | list[Message]:
            with fail_open():
                if isinstance(messages, list):
                    messages = self._focusctx.view(messages, CHAT, self._caller())
            return messages

        def _caller(self) -> Caller:
            return Caller(model=self.model, framework="crewai")

    return Focused
