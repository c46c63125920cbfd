"""DSPy: `FocusedReAct(signature, tools, focus=focus)` instead of `dspy.ReAct`.

A ReAct agent sends its whole trajectory as one field of one message. So steps are left out of the trajectory, before it
is written into the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..types import Message
from .plug import CHAT, Caller, Source, TenantOf, as_written, fail_open, needs, places, plugged

with needs("dspy"):
    import dspy


class FocusedReAct(dspy.ReAct):
    """The prompt holds a view of the trajectory; the trajectory in the prediction has every step."""

    def __init__(
        self,
        signature: Any,
        tools: list[Any],
        max_iters: int = 20,
        *,
        focus: Source,
        tenant: TenantOf | None = None,
    ) -> None:
        super().__init__(signature, tools, max_iters)
        self.focusctx = plugged(focus, tenant)

    def _call_with_potential_trajectory_truncation(self, module: Any, trajectory: dict[str, Any], **inputs: Any) -> Any:
        with fail_open():
            given = as_written(list(_chats(trajectory, inputs)))
            trajectory = _chosen(trajectory, given, self.focusctx.view(given, CHAT, _caller()))
        return super()._call_with_potential_trajectory_truncation(module, trajectory, **inputs)

    async def _async_call_with_potential_trajectory_truncation(
        self, module: Any, trajectory: dict[str, Any], **inputs: Any
    ) -> Any:
        with fail_open():
            given = as_written(list(_chats(trajectory, inputs)))
            trajectory = _chosen(trajectory, given, await self.focusctx.aview(given, CHAT, _caller()))
        return await super()._async_call_with_potential_trajectory_truncation(module, trajectory, **inputs)


def _caller() -> Caller:
    return Caller(model=getattr(dspy.settings.lm, "model", None), framework="dspy")


def _chats(trajectory: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the inputs as the user's words, then a call and its result for each step."""
    yield {"role": "user", "content": "\n".join(f"{name}: {value}" for name, value in inputs.items())}
    for number in _steps(trajectory):
        thought, name, arguments, found = (trajectory[field] for field in _fields(number))
        function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False, default=str)}
        call = {"id": number, "type": "function", "function": function}
        yield {"role": "assistant", "content": str(thought), "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": number, "content": str(found)}


def _chosen(trajectory: Mapping[str, Any], given: Sequence[Message], view: Sequence[Message]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for chat, place in zip(view, places(given, view), strict=True):
        if place is None:
            kept["left_out"] = chat["content"]
        elif chat["role"] == "assistant":
            kept |= {field: trajectory[field] for field in _fields(chat["tool_calls"][0]["id"])}
        elif chat is not given[place]:
            kept[_fields(chat["tool_call_id"])[-1]] = chat["content"]
    return kept


def _steps(trajectory: Mapping[str, Any]) -> list[str]:
    return [field.removeprefix("thought_") for field in trajectory if field.startswith("thought_")]


def _fields(number: str) -> tuple[str, str, str, str]:
    return f"thought_{number}", f"tool_name_{number}", f"tool_args_{number}", f"observation_{number}"
