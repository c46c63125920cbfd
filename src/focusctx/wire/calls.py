"""Does a call only look something up, or does it change the world? By its name, or by the shell command it runs."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import Any

from ..types import Call, Span
from . import results_by_call
from .react import named_actions

_FAILURES = {
    ("returncode",): r"<returncode>\s*-?0*[1-9]",
    ("exit",): r"\bexit(?:ed)?(?: with)?(?: code| status)?\W{1,3}-?0*[1-9]\d*\b",
    ("traceback",): r"^Traceback \(most recent call last\)",
    ("error", "exception"): r"(?-i:^[\w.]*(?:Error|Exception)(?::|$))"
    r"|\"(?:error|errors|exception)\"\s*:(?!\s*(?:null|false|\"\"|\[\]|\{\}))",
    (
        *("error", "failed", "failure", "invalid", "cannot", "unable", "denied", "rejected", "unauthori"),
        "forbidden",
    ): r"\A[\s*#>]*(?:error|failed|failure|invalid|cannot|unable|denied|rejected|unauthori[sz]ed|forbidden)\b",
    ('"success"', '"ok"'): r"\"(?:success|ok)\"\s*:\s*false",
}
"""Patterns of failures by words, one of which is in every match: plain words are much faster to search for."""
_FAILURE = [(words, re.compile(form, re.IGNORECASE | re.MULTILINE)) for words, form in _FAILURES.items()]


_READING = re.compile(
    r"get|list|search|find|read|look|lookup|view|show|check|query|fetch|describe|calculate|compute|think|plan|grep|ls"
    r"|cat|glob|browse|scroll|screenshot|recall|help|count|status|inspect|explain|preview|summarize|verify|wait|open"
    r"|load|retrieve|select|peek|info|details|history|validate|compare|analy[sz]e"
)
_CHANGING = re.compile(
    r"create|update|delete|remove|add|set|send|write|book|cancel|pay|transfer|modify|edit|put|post|submit|buy|mark|move"
    r"|rename|save|insert|replace|apply|reset|register|login|authorize|approve|reject|assign|close|refund|exchange"
    r"|upload|execute|run|install|commit|push|merge"
)
_SHELL = re.compile(r"(?:execute_|run_|local_)?(?:bash|shell|sh|terminal|command)", re.IGNORECASE)
_QUIET_COMMAND = re.compile(
    r"ls|cat|[ef]?grep|rg|find|head|tail|wc|pwd|cd|echo|printf|which|type|tree|file|stat|diff|cmp|sort|uniq|cut|tr|awk"
    r"|env|printenv|ps|du|df|date|true|false|test|less|more|nl|xargs|jq|column|basename|dirname|realpath|pytest"
    r"|python3?|node|ruff|mypy|flake8|sleep|export|source|set|whoami|hostname|id|uname|history|man"
)
"""Commands that only show something. Running a program or a test is one: what it prints is its result."""
_QUIET_GIT = re.compile(r"status|log|diff|show|branch|blame|grep|ls-files|rev-parse|remote|describe")
_ASSIGNMENT = re.compile(r"\w+=")
_OPTION = re.compile(r"-|\d+$|\{\}$|\w+=")
_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
_REDIRECTED = re.compile(r"(?<![0-9&<>])>{1,2}\s*(?!&|/dev/null)\S")
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\`$]|\\.|\$(?!\())*"|\\.|(?<!\S)\#[^\n]*""", re.DOTALL)
"""Quoted text in which no command can be; comments and escaped characters, so that their quotes open nothing."""
_INNER_COMMANDS = re.compile(r"&&|\|\||[;|\n`]|\$\(")
_FENCED = re.compile(r"```(?:\w*(?:bash|sh|shell|console|command))?[ \t]*\n(.*?)```", re.DOTALL)
_NAME_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def calls_of(span: Span) -> Iterator[Call]:
    """Yield the calls of a step; the action of an agent that acts in plain text counts as calls, too."""
    if span.calls:
        yield from span.calls
    elif span.action:
        yield from _text_calls(span.action)


def is_reading(call: Call, reads: Collection[str] = ()) -> bool:
    """True if a call only looks something up: by the user's list, its own name, or the command it runs."""
    if call.name in reads:
        return True
    arguments = arguments_of(call)
    if is_shell(call.name):
        return _only_shows(_command(arguments, call))
    words = name_words(call.name)
    if isinstance(command := arguments.get("command"), str) and not {"edit", "editor"}.isdisjoint(words):
        return command == "view"
    return any(map(_READING.fullmatch, words)) and not any(map(_CHANGING.fullmatch, words))


def read_only_tools(tools: Iterable[object]) -> tuple[str, ...]:
    """Return the names of the tools that are annotated as changing nothing, for the setting `reads`.

    These are MCP's tools (`readOnlyHint`), as objects or as plain data, and LangChain's tools that were made of such.
    A tool without the annotation is left out: MCP counts it as writing.
    """
    return tuple(_field(tool, "name") for tool in tools if _is_read_only(tool))


def _is_read_only(tool: object) -> bool:
    hints = [_field(tool, "annotations"), _field(tool, "metadata")]
    return any(_field(hint, name) is True for hint in hints for name in ("readOnlyHint", "read_only_hint"))


def _field(of: object, name: str) -> Any:
    return of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)


def may_be_reading(call: Call, reads: Collection[str] = ()) -> bool:
    """True if a call only looks something up, or if nothing says that it changes something."""
    if is_reading(call, reads):
        return True
    return not is_shell(call.name) and not any(map(_CHANGING.fullmatch, name_words(call.name)))


def is_shell(name: str) -> bool:
    """True for the name of a tool that runs shell commands."""
    return _SHELL.fullmatch(name) is not None


def failed_calls(span: Span, format: str) -> frozenset[str]:
    """Return the ids of the calls whose results report a failure; "" is a text agent's action."""
    results = results_by_call(span.messages, format) if span.calls else {"": span.observation}
    return frozenset(call for call, result in results.items() if has_failed(result))


def name_words(name: str) -> list[str]:
    """Return the words that a tool's name is made of, in lower case."""
    return [word.lower() for word in _NAME_WORDS.findall(name)]


def _text_calls(action: str) -> Iterator[Call]:
    commands = [block for block in _FENCED.findall(action) if not block.lstrip().startswith("{")]  # that is JSON
    if commands:
        yield from (Call("", f"bash({json.dumps({'command': command})})") for command in commands)
    else:
        yield from (Call("", f"{name}({given})") for name, given in [*named_actions(action)] or [("the action", "")])


def arguments_of(call: Call) -> Mapping[str, object]:
    """Return a call's arguments; none if they are not an object."""
    try:
        value = json.loads(call.text[len(call.name) + 1 : -1])
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _command(arguments: Mapping[str, object], call: Call) -> str:
    for key in ("command", "cmd", "code", "script"):
        value = arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return " ".join(map(str, value))
    return call.text[len(call.name) + 1 : -1]


def _only_shows(command: str) -> bool:
    """True if every command in a shell line only shows something."""
    if "awk" not in command:  # its programs can write files
        command = _QUOTED.sub(lambda found: "_" if found[0][0] in "\"'" else found[0], command)
    if _REDIRECTED.search(command) or "<<" in command:
        return False
    return all(_is_quiet(one) for one in _INNER_COMMANDS.split(command) if one.strip())


def _is_quiet(command: str) -> bool:
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        words = command.split()
    return _shows(words)


def _shows(words: Sequence[str]) -> bool:
    """True if a command, given word by word, only shows something."""
    words = [*dropwhile(_ASSIGNMENT.match, words)]
    if not words:
        return True
    name, rest = words[0].rsplit("/", 1)[-1], words[1:]
    if name in ("xargs", "env"):  # they run the command that follows their options
        return _shows([*dropwhile(_OPTION.match, rest)])
    if name == "find" and (run := next((place for place, word in enumerate(rest) if word in _RUNS), None)) is not None:
        return _shows(rest[run + 1 :])
    if name == "sed":
        return not any(word.startswith(("-i", "--in-place")) for word in rest)
    if name == "git":
        return bool(_QUIET_GIT.fullmatch(next((word for word in rest if not word.startswith("-")), "")))
    return bool(_QUIET_COMMAND.fullmatch(name)) and not (name == "find" and "-delete" in rest)


def has_failed(observation: str) -> bool:
    """True if a tool's output reports a failure."""
    lowered = observation.lower()
    return any(form.search(observation) for words, form in _FAILURE if any(word in lowered for word in words))
