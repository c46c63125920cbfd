"""A tool of the office: a function of the world and the agent's arguments, with its Chat Completions definition."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .world import World

Handler = Callable[..., str]
_TYPES = {"str": "string", "int": "integer"}


@dataclass(frozen=True, slots=True)
class Tool:
    handler: Handler
    description: str
    app: str
    """The app whose token a call must carry; empty where none is needed."""
    parameters: Mapping[str, str]
    """Name to JSON type."""

    @property
    def name(self) -> str:
        return self.handler.__name__

    def definition(self) -> dict[str, Any]:
        fields = {name: {"type": kind} for name, kind in self.parameters.items()}
        schema = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": schema},
        }

    def run(self, world: World, arguments: Mapping[str, Any]) -> str:
        """What the agent sees. A call that cannot be made says why and changes nothing."""
        given = {name: value for name, value in arguments.items() if value is not None}
        if given.keys() != self.parameters.keys():
            return f"Error: {self.name} takes {', '.join(self.parameters) or 'nothing'}."
        if self.app and given.pop("token") != world.tokens.get(self.app):
            return f"Error: no valid token for {self.app}. Log in first."
        try:
            texts = {
                name: int(value) if self.parameters[name] == "integer" else str(value) for name, value in given.items()
            }
        except (TypeError, ValueError):
            return f"Error: {self.name} wants whole numbers where they are asked for."
        return self.handler(world, **texts)


TOOLS: dict[str, Tool] = {}


def tool(description: str, app: str = "") -> Callable[[Handler], Handler]:
    """Makes the function a tool; `app` adds the token to its parameters."""

    def register(handler: Handler) -> Handler:
        given = list(inspect.signature(handler).parameters.values())[1:]
        parameters = {"token": "string"} if app else {}
        parameters |= {one.name: _TYPES[str(one.annotation)] for one in given}
        TOOLS[handler.__name__] = Tool(handler, description, app, parameters)
        return handler

    return register
