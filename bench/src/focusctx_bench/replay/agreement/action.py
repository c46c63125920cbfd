"""The action of an assistant turn, and how far two actions agree.

An action is its tools, in order, and the values it gives them. Of a shell command the tool is the program it runs, and
the values are its words; a turn that calls nothing and runs nothing speaks, and its values are its words. Thoughts
beside an action do not count.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from focusctx.types import Message

SAYS = "say"
"""The tool of a turn that only speaks."""

_SHELL = re.compile(r"```(?:bash|sh)[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
"""The block that a text agent runs; where the answer was cut it has no end."""
_COMMANDS = frozenset({"command", "cmd"})
"""A tool whose one argument has such a name is a shell."""
_SEPARATOR = re.compile(r"&&|\|\||[;|\n]")
_ASSIGNMENT = re.compile(r"\w+=")
_ON_THE_WAY = frozenset({"cd", "export", "set", "source", "sudo"})
"""Programs that only prepare for the one that matters."""


@dataclass(frozen=True, slots=True)
class Action:
    tools: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of two actions; each figure is between 0 and 1."""

    exact: float
    """1 if tools and values are equal, in order; white space aside."""
    tool: float
    """1 if the tools are equal, in order."""
    arguments: float
    """Share of values in common: 2·|A ∩ B| / (|A| + |B|), each value as often as it occurs."""


def action_of(message: Message) -> Action:
    """Return the action of a Chat Completions assistant message."""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    if calls:
        read = [_called(str(call["name"]), call.get("arguments")) for call in calls]
        return Action(tuple(tool for tool, _ in read), tuple(value for _, values in read for value in values))
    text = _words_of(message.get("content"))
    if commands := _SHELL.findall(text):
        return Action(tuple(map(_program, commands)), tuple(word for one in commands for word in _words(one)))
    return Action((SAYS,), tuple(re.findall(r"\w+", text.lower())))


def agreement(one: Action, other: Action) -> Agreement:
    ours, theirs = Counter(one.values), Counter(other.values)
    total = ours.total() + theirs.total()
    return Agreement(
        exact=float(one == other),
        tool=float(one.tools == other.tools),
        arguments=2 * (ours & theirs).total() / total if total else 1.0,
    )


def leaves(value: Any) -> Iterator[str]:
    """The values in an argument, in order of their names, whatever it is made of."""
    if isinstance(value, Mapping):
        value = [value[name] for name in sorted(value)]
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, str):
        yield " ".join(value.split())
    else:
        yield json.dumps(value)


def _called(name: str, arguments: Any) -> tuple[str, Sequence[str]]:
    """A call's tool and values; arguments that are no JSON, since a model wrote them, count as words."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            return name, arguments.split()
    if isinstance(arguments, Mapping) and len(arguments) == 1 and arguments.keys() <= _COMMANDS:
        command = str(next(iter(arguments.values())))
        return f"{name}:{_program(command)}", _words(command)
    return name, list(leaves(arguments))


def _program(command: str) -> str:
    """The first program of a command line that is more than a preparation."""
    for part in _SEPARATOR.split(command):
        words = [word for word in part.split() if not _ASSIGNMENT.match(word)]
        if words and words[0] not in _ON_THE_WAY:
            return words[0].rpartition("/")[2]
    return next(iter(command.split()), "")


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an open quotation mark: a script, or an answer that was cut
        return command.split()


def _words_of(content: object) -> str:
    if isinstance(content, list | tuple):
        return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, Mapping))
    return content if isinstance(content, str) else ""
