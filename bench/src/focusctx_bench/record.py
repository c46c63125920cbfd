"""The record of one task, and its file: everything the tables are made from, and every request as it was sent.

A file is one JSON object, written whole or not at all. Messages stand in it once: what a step sent is a list of
places in the history, and of messages that the method made itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from focusctx.errors import BenchError
from focusctx.types import Message, Usage

from .seams import Score

VERSION = 1

Ended: TypeAlias = Literal["done", "steps", "context", "model"]
"""How a run ended: the task was over; the steps were used up; the model could not read that much; the model, or the one
that the method asks, gave no answer. The last says nothing about the method: such a task is to be run again."""

Piece: TypeAlias = tuple[int, int] | int
"""Of what was sent: a range of history positions (the end excluded), or `-n` for the n-th message the method made."""


@dataclass(frozen=True, slots=True)
class Event:
    """A compression: one that went well, also when it found nothing to drop, or one that was due and failed."""

    happened: bool
    """Something that had been sent before was sent no more."""
    seconds: float
    """How long the agent waited for it."""
    usage: Usage
    tokens_before: int
    """Of the whole history, system prompt excluded."""
    tokens_after: int
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One request of the agent's model and its answer. Token counts are cl100k_base."""

    input_tokens: int
    """`n_i`: what was sent, system prompt excluded."""
    output_tokens: int
    """`n_o`: what came back, words and tool calls."""
    history_tokens: int
    """What would have been sent without a method."""
    seconds: float
    """Of the model's answer."""
    usage: Usage
    cached_tokens: int
    billed: float | None
    sent: tuple[Piece, ...]
    reply: int
    """The place of the answer in the history."""
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One task under one method."""

    benchmark: str
    task: str
    difficulty: str
    model: str
    method: str
    ended: Ended
    problem: str | None
    score: Score
    seconds: float
    """Wall clock, from the first step to the score."""
    started: str
    """UTC, as ISO 8601."""
    steps: tuple[Step, ...]
    messages: tuple[Message, ...]
    """The whole history, as it stood at the end."""
    made: tuple[Message, ...] = ()
    """Messages that the method put in place of others, each once."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the run was told, as JSON: draft, budget, seed, step limit."""
    version: int = VERSION

    def sent(self, step: Step) -> list[Message]:
        """The messages of that step's request."""
        found: list[Message] = []
        for piece in step.sent:
            found.extend([self.made[-piece - 1]] if isinstance(piece, int) else self.messages[slice(*piece)])
        return found

    def with_settings(self, settings: Mapping[str, Any]) -> Record:
        return replace(self, settings=settings)


def file_name(task: str) -> str:
    """A file name for a task, whatever its id is made of."""
    return f"{quote(task, safe=' ')}.json"


def write_record(path: Path, record: Record) -> None:
    """Whole or not at all, also when the process is killed in the middle."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with unfinished.open("w", encoding="utf-8") as file:
        json.dump(asdict(record), file, ensure_ascii=False, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def read_record(path: Path) -> Record:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.get("version") != VERSION:
            raise BenchError(f"{path}: a record of version {data.get('version')!r}, this program reads {VERSION}")
        return _record(data)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BenchError(f"{path} is no record of a task: {error!r}") from error


def read_records(folder: Path) -> Iterator[Record]:
    """All records below a folder, one at a time, in the order of their paths."""
    for path in sorted(folder.rglob("*.json")):
        yield read_record(path)


def _record(data: dict[str, Any]) -> Record:
    score = Score(**data.pop("score"))
    steps = tuple(_step(step) for step in data.pop("steps"))
    messages, made = tuple(data.pop("messages")), tuple(data.pop("made"))
    return Record(score=score, steps=steps, messages=messages, made=made, **data)


def _step(data: dict[str, Any]) -> Step:
    event = data.pop("event")
    if event is not None:
        event = Event(usage=Usage(**event.pop("usage")), **event)
    sent = tuple(piece if isinstance(piece, int) else (piece[0], piece[1]) for piece in data.pop("sent"))
    return Step(usage=Usage(**data.pop("usage")), sent=sent, event=event, **data)
