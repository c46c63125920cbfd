"""Facts: strings that an agent has to get right to the letter, and those that an action was given."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..types import Message, Span
from ..wire.gemini import calls_in

NEEDED = re.compile(
    r"""
      [\w.+-]+@[\w-]+(?:\.[\w-]+)+                     # e-mail addresses
    | (?:~|\.{1,2})?(?:/?[\w.-]+/)+[\w.-]*\w           # paths
    | \#?(?=[\w-]*\d)(?=[\w-]{4,})\w+(?:-\w+)*         # ids, dates, hex, numbers of four digits or more
    | [A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+                  # dotted names and file names
    | \w*[A-Za-z0-9]_\w+                               # snake_case
    | [A-Za-z]*[a-z][A-Z]\w*                           # CamelCase
    """,
    re.VERBOSE,
)

_SHELL = re.compile(r"```(?:bash|sh)\n(.*?)```", re.DOTALL)
"""The block that a text agent runs; other blocks in its turn are quotations."""

_ESCAPE = re.compile(r"\\[nrt]")
"""In `print("\\nTotal")` there is no name `nTotal`."""

_GIVEN = ("arguments", "input", "action", "code", "query")
"""Fields in which items of the Responses format hold a call's arguments."""


def facts_in(text: str) -> frozenset[str]:
    found = {match.removeprefix("./") for match in NEEDED.findall(text)}
    # `250p` or `3rd` is no id, but `4OG6T3` is one.
    return frozenset(
        one
        for one in found
        if len(one) >= 4 and (len(one) >= 6 or not one[0].isdigit() or one.replace("-", "").isdigit())
    )


def arguments(span: Span) -> str:
    """Return the arguments of an action. Tool and field names are left out: the agent has them from its tools."""
    given = [leaf for message in span.messages for value in _given(message) for leaf in _leaves(value)]
    return _ESCAPE.sub(" ", "\n".join(given or _SHELL.findall(span.action) or [span.action]))


def text_of(span: Span) -> str:
    return "\n".join((span.thought, span.action, span.observation))


def _given(message: Message) -> Iterator[Any]:
    """The arguments of each tool call in a message, in whatever format it is."""
    for call in message.get("tool_calls") or ():
        body = call.get("function") or call.get("custom") or {}
        yield _parsed(body.get("arguments", body.get("input")))
    if isinstance(legacy := message.get("function_call"), Mapping):
        yield _parsed(legacy.get("arguments"))
    if str(message.get("type")).endswith("_call"):
        yield from (_parsed(message[name]) for name in _GIVEN if message.get(name))
    content = message.get("content")
    for block in content if isinstance(content, list | tuple) else ():
        if isinstance(block, Mapping) and str(block.get("type")).endswith(("tool_use", "tool-call")):
            yield block.get("input")
    yield from (call.get("args") for call in calls_in(message))


def _parsed(value: Any) -> Any:
    """Arguments are JSON text; a model may have written something else."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield str(value)
