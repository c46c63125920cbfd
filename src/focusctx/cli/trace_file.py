"""Trace files: a list, an object around a list, or one of these per line, compressed one after the other.

The output has the same shape as the input, and a conversation that was not compressed is written back character for
character.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import FocusConfig
from ..errors import MessageError
from ..pipeline.split import Reader, check_list
from ..types import Message, Result
from ..wire import recognise, wire_named
from ..wire.foreign import not_understood
from .command import Problem
from .output import console_on, printable

if TYPE_CHECKING:
    from ..compressor import Focus

_FIELDS = ("messages", "input", "contents")
_OF_A_RESULT = {"messages", "compressed", "decisions", "tokens_before"}
_JSONL = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class RecordedConversation:
    """One message list and its place in the file."""

    name: str
    text: str
    """The text in the file."""
    value: Any
    field: str | None
    """The object's field that holds the list; None if the value is the list itself."""

    @property
    def messages(self) -> list[Message]:
        found: list[Message] = self.value if self.field is None else self.value[self.field]
        return found

    def with_messages(self, messages: Sequence[Message]) -> str:
        """Return the original JSON with these messages in it."""
        if messages is self.messages:
            return self.text
        value = messages if self.field is None else {**self.value, self.field: messages}
        return json.dumps(value, ensure_ascii=False, indent=2 if "\n" in self.text else None)


@dataclass(frozen=True, slots=True)
class SavedResult:
    """Output of `focusctx compress --json`."""

    name: str
    result: Result


def read_trace(source: str, format: str | None = None) -> list[RecordedConversation | SavedResult]:
    """Read and check the whole file, so that a bad last line is found before the first draft is paid for."""
    name = "standard input" if source == "-" else source
    text = _decoded(_read(source), name)
    entries = [_entry(value, part, _named(value, place)) for value, part, place in _values(text, name)]
    for entry in entries:
        if isinstance(entry, RecordedConversation):
            _check(entry, format)
    return entries


def conversations_in(entries: Sequence[RecordedConversation | SavedResult]) -> list[RecordedConversation]:
    """Return the entries, if none of them is a saved result."""
    for entry in entries:
        if isinstance(entry, SavedResult):
            raise Problem(f"{entry.name} is a saved Result; `focusctx explain` shows it")
    return [entry for entry in entries if isinstance(entry, RecordedConversation)]


def results_of(
    focus: Focus, entries: Sequence[RecordedConversation | SavedResult], arguments: argparse.Namespace
) -> list[Result]:
    """Return one result per entry. Progress is shown on standard error, and only on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = console_on(sys.stderr)
    several = (BarColumn(), MofNCompleteColumn()) if len(entries) > 1 else ()
    results: list[Result] = []
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        *several,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal or getattr(arguments, "quiet", False),
    ) as progress:
        task = progress.add_task(f"sketching plans: {printable(focus.draft.name)}", total=len(entries))
        for entry in entries:
            if isinstance(entry, SavedResult):
                results.append(entry.result)
            else:
                results.append(focus.compress(entry.messages, goal=arguments.goal, format=arguments.format))
            progress.advance(task)
    return results


def warn(entries: Sequence[RecordedConversation | SavedResult], results: Sequence[Result]) -> None:
    """Write the warnings of results that are not shown otherwise."""
    for entry, result in zip(entries, results, strict=True):
        for warning in result.warnings:
            sys.stderr.write(printable(f"focusctx: warning: {entry.name}: {warning}\n"))


def warn_of_failures(entries: Sequence[RecordedConversation | SavedResult], results: Sequence[Result]) -> None:
    """Warn of failed drafts: they leave the history unchanged, which is not an error but must not be overlooked."""
    for entry, result in zip(entries, results, strict=True):
        if result.failure is not None:
            sys.stderr.write(printable(f"focusctx: warning: {entry.name} not compressed: {result.failure}\n"))


def _read(source: str) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except FileNotFoundError:
        raise Problem(f"{source}: there is no such file; give the path of a trace, or - for standard input") from None
    except OSError as error:
        raise Problem(f"{source} cannot be read: {error.strerror}") from error


def _decoded(data: bytes, name: str) -> str:
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise Problem(f"{name} is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}") from error
    if not text.strip():
        raise Problem(f"{name} is empty; it should hold a JSON list of messages")
    return text


def _values(text: str, name: str) -> list[tuple[Any, str, str]]:
    """Return each JSON value, the characters it was read from, and its name for messages."""
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not name.endswith(_JSONL):
        try:
            return [(json.loads(text), text.strip(), name)]
        except json.JSONDecodeError as error:
            if len(lines) == 1 or not _is_json(lines[0][1]):
                raise Problem(f"{name} is not valid JSON: {_place(error.lineno, error)}") from error
        except (ValueError, RecursionError) as error:  # a number with thousands of digits, or endless nesting
            raise Problem(f"{name} cannot be read as JSON: {error}") from error
    return [(_line(line, number, name), line, f"{name} line {number}") for number, line in lines]


def _line(line: str, number: int, name: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise Problem(f"{name} is not valid JSONL: {_place(number, error)}") from error
    except (ValueError, RecursionError) as error:
        raise Problem(f"{name} line {number} cannot be read as JSON: {error}") from error


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _place(line: int, error: json.JSONDecodeError) -> str:
    return f"line {line}, column {error.colno}: {error.msg}"


def _entry(value: Any, text: str, name: str) -> RecordedConversation | SavedResult:
    if isinstance(value, list):
        return RecordedConversation(name, text, value, None)
    if not isinstance(value, Mapping):
        raise Problem(f"{name} holds a {_json_name(value)}; it should hold a list of messages")
    if value.keys() >= _OF_A_RESULT:
        return SavedResult(name, _result(text, name))
    for field in _FIELDS:
        if field in value:
            return RecordedConversation(name, text, value, field)
    if "role" in value or "type" in value:
        raise Problem(f"{name} is a single message; put the messages in a list (`jq -s . FILE` does it for JSONL)")
    raise Problem(
        f"{name} holds an object without 'messages', 'input' or 'contents'; one of them should be the message list"
    )


def _named(value: Any, place: str) -> str:
    """Return the name of a conversation: its own id, if it has one, and its place in the file."""
    own = value.get("id") if isinstance(value, Mapping) else None
    return f"{own} ({place})" if isinstance(own, str | int) and not isinstance(own, bool) and str(own) else place


def _json_name(value: object) -> str:
    names = {str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")


def _result(text: str, name: str) -> Result:
    try:
        return Result.from_json(text)
    except (MessageError, AttributeError) as error:
        raise Problem(f"{name}: {error}; run `focusctx compress --json` again") from error


def _check(conversation: RecordedConversation, format: str | None) -> None:
    messages = conversation.messages
    try:
        check_list(messages)
        wire = wire_named(format) if format else recognise(messages)
        reader = Reader(wire, FocusConfig(), len)
        reader.extend(messages)
        if not reader.understands:
            raise MessageError(not_understood(messages))
    except MessageError as error:
        raise Problem(f"{conversation.name}: {error}") from error
