"""What the agent can do, as tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ANSWER = "answer"
_NUMBER = {"type": "integer", "description": "the number in brackets before an element"}


def _definition(name: str, description: str, optional: Sequence[str] = (), **parameters: Any) -> Mapping[str, Any]:
    schema = {
        "type": "object",
        "properties": parameters,
        "required": [parameter for parameter in parameters if parameter not in optional],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS: Sequence[Mapping[str, Any]] = (
    _definition("click", "Click a link, a button or another numbered element.", number=_NUMBER),
    _definition(
        "type",
        "Put text into a field in place of what it holds, or choose the option of a select by its words.",
        optional=("submit",),
        number=_NUMBER,
        text={"type": "string"},
        submit={"type": "boolean", "description": "whether to press Enter afterwards"},
    ),
    _definition(
        "scroll", "See the next or the previous part of the page.", direction={"type": "string", "enum": ["down", "up"]}
    ),
    _definition("back", "Go back to the page before."),
    _definition("goto", "Open a web address.", url={"type": "string"}),
    _definition(ANSWER, "Give the answer, which ends the task.", text={"type": "string"}),
)
