"""The tool calls of a run, which of them only look something up, and which were made twice."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from focusctx.types import Message

_WRITES = re.compile(r"add|book|buy|cancel|create|delete|edit|modify|move|pay|post|put|remove|send|set|update|write")
"""A word of a tool's name that says it changes something, whatever the other words say."""
_READS = re.compile(
    r"read|list|get|find|search|show|view|look|lookup|fetch|check|query|describe|help|history|status|sent|inbox|calculate|"
    r"compute|think|login|authenticate|scroll|browse|screenshot|cat|ls"
)
"""A word that says it changes nothing. A login is among them: doing it again only costs a step."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FAILED = re.compile(r"\s*(error|failed|failure|exception|traceback|\{\s*\"error\")", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call with its result."""

    turn: int
    """Position of the assistant message in the history."""
    name: str
    arguments: str
    """Canonical JSON."""
    result: Message | None
    """None if the run ended before there was one."""

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.arguments

    @property
    def is_read(self) -> bool:
        """True if the tool's name says that it changes nothing."""
        words = [word.lower() for word in _WORD.findall(self.name)]
        return any(map(_READS.fullmatch, words)) and not any(map(_WRITES.fullmatch, words))

    @property
    def succeeded(self) -> bool:
        return self.result is not None and not _FAILED.match(str(self.result.get("content") or ""))


def calls_of(messages: Sequence[Message]) -> list[Call]:
    """Return the calls of a history, in order."""
    results = {message["tool_call_id"]: message for message in messages if message["role"] == "tool"}
    return [
        Call(turn, call["function"]["name"], _canonical(call["function"]["arguments"]), results.get(call["id"]))
        for turn, message in enumerate(messages)
        for call in message.get("tool_calls") or ()
    ]


def repeated(calls: Sequence[Call]) -> list[tuple[Call, list[Call]]]:
    """Return each call that had succeeded before with equal arguments, and the calls that had."""
    done: dict[tuple[str, str], list[Call]] = {}
    found = []
    for call in calls:
        if before := done.get(call.key):
            found.append((call, list(before)))
        if call.succeeded:
            done.setdefault(call.key, []).append(call)
    return found


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True, ensure_ascii=False)
    except ValueError:
        return arguments
