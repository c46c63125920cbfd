"""OfficeBench's actions as tools. Its apps describe an action by an example; names and parameters are read off it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SWITCH = "switch_app"
FINISH = "finish_task"

_PARAMETER = re.compile(r"'(\w+)': \[([A-Z_]+)\]")


@dataclass(frozen=True, slots=True)
class Action:
    app: str
    action: str
    file: str
    """Where the app has it."""
    demo: str
    """Such as: `read a pdf file: {'app': 'pdf', 'action': 'read_file', 'pdf_file_path': [THE_PATH_…]}`."""

    @property
    def tool(self) -> str:
        return f"{self.app}_{self.action}"

    def definition(self) -> dict[str, Any]:
        described = self.demo.partition("{")[0].strip().removesuffix(":")
        parameters = {
            name: {
                "type": "integer" if placeholder.endswith("_INDEX") else "string",
                "description": placeholder.replace("_", " ").lower(),
            }
            for name, placeholder in _PARAMETER.findall(self.demo)
        }
        return _definition(self.tool, described, parameters, parameters)


def actions_of(app: str, described: Mapping[str, Any]) -> dict[str, Action]:
    """By the names of their tools."""
    actions = (Action(app, action, **told) for action, told in described["actions"].items())
    return {action.tool: action for action in actions}


def switch(apps: Iterable[str]) -> dict[str, Any]:
    parameters = {"target_app": {"type": "string", "enum": list(apps)}}
    return _definition(SWITCH, "Open an app: its actions become your tools, those of the last one go.", parameters)


def finish() -> dict[str, Any]:
    parameters = {"answer": {"type": "string", "description": "if the task is a question"}}
    return _definition(FINISH, "The task is done.", parameters, required=())


def _definition(
    name: str, description: str, parameters: Mapping[str, Any], required: Iterable[str] | None = None
) -> dict[str, Any]:
    wanted = list(parameters if required is None else required)
    schema = {"type": "object", "properties": dict(parameters), "required": wanted}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
