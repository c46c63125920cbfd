"""The recall tool, with which an agent gets back a step that was left out of its view, or one passage of it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import ConfigError
from ..pipeline.outline import message_tokens, outline, shortened
from ..pipeline.split import Count
from ..types import Message, Span
from ..wire import Wire
from .store import Archived

TOOL = "recall_step"
_DESCRIPTION = (
    "Bring back an earlier step of this conversation that was left out to save space, whole or in part, word for word. "
    "Give its id, such as s_7, or s_7.2 for its second passage alone, or a few words that occurred in it."
)
_SCHEMA = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "A step id such as s_7, a passage id such as s_7.2, or words to search for.",
        }
    },
    "required": ["query"],
    "additionalProperties": False,
}
_MOST = 3
"""Most steps that one search brings back."""
_IDS = re.compile(r"\bs[_\s-]?(\d{1,9})(?:\.(\d{1,9}))?\b|^\W*(\d{1,9})(?:\.(\d{1,9}))?\W*$", re.IGNORECASE)


def recall_tool(format: str = "chat_completions") -> dict[str, Any]:
    """Return the tool's definition, to put beside the agent's own tools."""
    schema = copy.deepcopy(_SCHEMA)
    if format in ("chat_completions", "ollama"):
        return {"type": "function", "function": {"name": TOOL, "description": _DESCRIPTION, "parameters": schema}}
    if format == "responses":
        return {"type": "function", "name": TOOL, "description": _DESCRIPTION, "parameters": schema, "strict": True}
    if format == "anthropic":
        return {"name": TOOL, "description": _DESCRIPTION, "input_schema": schema}
    if format == "ai_sdk":
        return {"type": "function", "name": TOOL, "description": _DESCRIPTION, "inputSchema": schema}
    if format == "gemini":
        return {"name": TOOL, "description": _DESCRIPTION, "parametersJsonSchema": schema}
    raise ConfigError(f"no recall tool for format {format!r}")


def query_of(arguments: object) -> str:
    """Return the query from the model's arguments; models write them in many ways, and all are accepted."""
    parsed = arguments
    if isinstance(arguments, str | bytes | bytearray):
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments if isinstance(arguments, str) else arguments.decode("utf-8", "replace")
    if isinstance(parsed, Mapping):
        # Some models name the argument after what they look for.
        parsed = parsed.get("query", next(iter(parsed.values()), None))
    if isinstance(parsed, list | tuple):
        return " ".join(str(part) for part in parsed)
    return "" if parsed is None else str(parsed)


def span_number(span: int | str) -> int:
    """Return the number of a step given as 7, "7" or "s_7", or of the step of a passage such as "s_7.2"."""
    match = _IDS.fullmatch(span) if isinstance(span, str) else None
    if match is None and not isinstance(span, int):
        raise ConfigError(f"no step has the id {span!r}: give its number, or an id such as s_7")
    return int(match[1] or match[3]) if match else int(span)


def find(query: str, archived: Sequence[Archived]) -> list[Archived]:
    """Return the steps with the ids in the query, or those that share most words with it, newest first among equals."""
    ids = named_units(query)
    if named := [span for span in archived if span.index in ids]:
        return named
    words = _words(query)
    scored = [(len(words & _words(span.text)), span.index, span) for span in archived]
    best = sorted((entry for entry in scored if entry[0]), key=lambda entry: entry[:2], reverse=True)
    return [span for _, _, span in best[:_MOST]]


def excerpt(archived: Archived, span: Span, numbers: Collection[int], wire: Wire, count: Count) -> Archived:
    """Return a step with only these passages and their calls; the whole step if it has no such passage."""
    outlined = outline(span, wire.name, count)
    shown = [passage for passage in outlined.passages if passage.number in numbers]
    if not shown:
        return archived
    asked = {passage.call for passage in shown}
    calls = {-number for number, call in enumerate(span.calls, 1) if call.id in asked} if outlined.record else ()
    messages = shortened(replace(span, messages=archived.messages), wire, frozenset({*numbers, *calls}))
    tokens = sum(message_tokens(message, wire, count) for message in messages)
    return replace(archived, messages=messages, tokens=tokens)


def named_units(query: str) -> dict[int, frozenset[int]]:
    """Return the steps named in a query, with the passages it asks for; none for the whole step."""
    found: dict[int, frozenset[int]] = {}
    for match in _IDS.finditer(query):
        index, passage = int(match[1] or match[3]), match[2] or match[4]
        wanted = frozenset({int(passage)} if passage else ())
        before = found.get(index, wanted)
        found[index] = before | wanted if before and wanted else frozenset()
    return found


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def answer(query: str, found: Sequence[Archived], archived: Sequence[Archived]) -> str:
    """Return the tool's result."""
    if found:
        return "\n\n".join(f"[s_{span.index}]\n{span.text}" for span in found)
    return f"Nothing left out matches {query!r}. Left out: {ranges([span.index for span in archived]) or 'nothing'}."


def unavailable(query: str) -> str:
    """Return the tool's result for a store that cannot be read."""
    return (
        f"Steps that were left out cannot be read at the moment, so nothing was found for {query!r}. Try again later."
    )


def note(gone: Collection[int], shortened: Collection[int], format: str) -> Message:
    """Return the one-line message that lists the missing steps; only shown where the tool is offered."""
    left_out = [f"steps {ranges(gone)}"] if gone else []
    left_out += [f"parts of {ranges(shortened)}"] if shortened else []
    text = f"[Left out to save space: {', '.join(left_out)}. Call {TOOL} to get one back.]"
    return {"role": "user", **({"parts": [{"text": text}]} if format == "gemini" else {"content": text})}


def ranges(indices: Collection[int]) -> str:
    """Format step numbers as `s_1–s_4, s_7`."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ", ".join(f"s_{run[0]}" if len(run) == 1 else f"s_{run[0]}–s_{run[-1]}" for run in runs)
