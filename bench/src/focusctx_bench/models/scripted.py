"""Models without a model: a function of the messages, for testbeds and tests, ours and yours.

The function gets what a real model would get and nothing else, so what it knows is what its context shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from focusctx.types import Message, Usage

from ..protocols import ModelAnswer
from ..sizes import size

_NUMBERED = re.compile(r"call_(\d+)$")


@dataclass(frozen=True, slots=True)
class Say:
    """One turn: words, and the tools to call with them."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()


class FunctionModel:
    """Asks the function for every turn. Costs nothing; tokens are counted as for any other model."""

    def __init__(self, decide: Callable[[Sequence[Message]], Say], name: str = "scripted") -> None:
        self.name = name
        self._decide = decide

    async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> ModelAnswer:  # noqa: ARG002
        message = _message(self._decide(messages), _last_number(messages))
        return ModelAnswer(message, Usage(1, size(messages, with_system=True), size([message])))


def _message(say: Say, last: int) -> Message:
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
        }
        for number, (name, arguments) in enumerate(say.calls, last + 1)
    ]
    if not calls:
        return {"role": "assistant", "content": say.text}
    return {"role": "assistant", "content": say.text or None, "tool_calls": calls}


def _last_number(messages: Sequence[Message]) -> int:
    """Count the calls in sight: ids go on from there, so that none occurs twice in a history."""
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    return max((int(match[1]) for call in calls if (match := _NUMBERED.match(str(call["id"])))), default=0)
