"""The tools of an agent, as far as its recorded runs show them: logs hold calls, but rarely the definitions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from focusctx.replay.runs import Run
from focusctx.types import Message

Tool = Mapping[str, Any]
"""A Chat Completions tool definition."""

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def tools_seen(runs: Iterable[Sequence[Message]]) -> list[Tool]:
    """One definition per name that was called, in the order of names. What every call gave is required."""
    calls: dict[str, list[Mapping[str, Any]]] = {}
    for messages in runs:
        for message in messages:
            for call in message.get("tool_calls") or ():
                calls.setdefault(call["function"]["name"], []).append(_arguments(call["function"]))
    return [_definition(name, calls[name]) for name in sorted(calls)]


def tools_by_file(runs: Sequence[Run]) -> dict[str, list[Tool]]:
    files = dict.fromkeys(run.file for run in runs)
    return {file: tools_seen(run.messages for run in runs if run.file == file) for file in files}


def _arguments(function: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        given = json.loads(function.get("arguments") or "{}")
    except ValueError:  # the model wrote no JSON; the environment will have told it so
        return {}
    return given if isinstance(given, dict) else {}


def _definition(name: str, calls: Sequence[Mapping[str, Any]]) -> Tool:
    names = sorted({argument for call in calls for argument in call})
    properties = {argument: _schema([call[argument] for call in calls if argument in call]) for argument in names}
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": "",
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": [argument for argument in names if all(argument in call for call in calls)],
            },
        },
    }


def _schema(values: Sequence[Any]) -> dict[str, Any]:
    """The JSON type that all values share; where they differ, none is said."""
    types = {_TYPES[type(value)] for value in values if value is not None}
    if types != {"array"}:
        return {"type": types.pop()} if len(types) == 1 else {}
    # Providers want to know what an array holds.
    return {"type": "array", "items": _schema([item for value in values if value for item in value])}
