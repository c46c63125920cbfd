"""CrewAI: `Agent(role=…, llm=focused(LLM(…), focus), tools=…)`, in crews and flows.

CrewAI's LLM hooks edit the agent's own messages. An LLM is handed them for one call.
"""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

from ..types import Message
from .plug import Plug, Source, fail_open, needs

with needs("crewai"):
    from crewai import BaseLLM

_Kind = TypeVar("_Kind", bound=BaseLLM)
_FORMAT = "chat_completions"


def focused(llm: _Kind, focus: Source) -> _Kind:
    """A copy of the LLM whose calls carry views; of the same class, the same in everything else."""
    plug, kind = Plug(focus), type(llm)

    class Focused(kind):  # type: ignore[misc, valid-type]
        def call(self, messages: str | list[Message], *args: Any, **kwargs: Any) -> Any:
            return super().call(_view(messages), *args, **kwargs)

        async def acall(self, messages: str | list[Message], *args: Any, **kwargs: Any) -> Any:
            with fail_open():
                if isinstance(messages, list):
                    messages = await plug.aview(messages, _FORMAT, model=llm.model)
            return await super().acall(messages, *args, **kwargs)

        def is_context_window_overflowing_threshold(
            self, messages: str | list[Message], *args: Any, **kwargs: Any
        ) -> Any:
            """What is sent must fit: otherwise CrewAI sums up its history."""
            return super().is_context_window_overflowing_threshold(_view(messages), *args, **kwargs)

    def _view(messages: str | list[Message]) -> str | list[Message]:
        with fail_open():
            if isinstance(messages, list):
                messages = plug.view(messages, _FORMAT, model=llm.model)
        return messages

    changed = copy(llm)
    object.__setattr__(changed, "__class__", Focused)
    return changed
