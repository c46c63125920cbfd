"""What a model said at points of recorded runs, one JSON line per point and view; lines are only ever added."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from focusctx.errors import BenchError
from focusctx.replay.files import PACKED, read_text
from focusctx.replay.record import Key, end_the_last_line, settings_text
from focusctx.types import Message

ANSWERS = "answers.jsonl"

FULL = "none"
"""The view that others are held against: the full history."""
AGAIN = "again"
"""The full history once more: how far the model agrees with itself."""
RECORDED = "recorded"
"""No view: what the recorded agent did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One turn, at one point of a run, under one method."""

    file: str
    run: str
    messages: int
    """How many leading messages of the run were the history."""
    model: str
    """Who was asked."""
    method: str
    draft: str = ""
    budget: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """As in the records of points."""
    history_tokens: int
    sent_tokens: int
    """Of the view, system prompt excluded."""
    span_tokens: int
    span_left: int
    turn: Message
    """The assistant message."""

    @property
    def place(self) -> tuple[str, str, int]:
        return self.file, self.run, self.messages

    @property
    def line(self) -> tuple[str, str, str]:
        """What tells one line of a table from another."""
        return self.method, self.draft, settings_text(self.settings)

    @property
    def key(self) -> Key:
        return *self.place, self.model, *self.line, self.budget


class Answers:
    """A file of them, read and added to; one that is packed is only read."""

    def __init__(self, folder: Path) -> None:
        plain, packed = folder / ANSWERS, folder / f"{ANSWERS}{PACKED}"
        self.path = packed if packed.exists() and not plain.exists() else plain

    def __iter__(self) -> Iterator[Answer]:
        """All of them. A last line that a kill cut short is left out."""
        if not self.path.exists():
            return
        for number, line in enumerate(read_text(self.path).split("\n")[:-1], 1):
            try:
                yield Answer(**json.loads(line))
            except (ValueError, TypeError) as error:
                raise BenchError(f"{self.path} line {number} is no answer of a model: {error!r}") from error

    def open(self) -> set[Key]:
        """The keys of what is there already, with the file ready to be added to."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        end_the_last_line(self.path)
        return {answer.key for answer in self}

    def add(self, answer: Answer) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(f"{json.dumps(asdict(answer), ensure_ascii=False, separators=(',', ':'))}\n".encode())
