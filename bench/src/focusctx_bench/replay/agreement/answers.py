"""The next turns of a model at points of recorded runs: a record for each point and view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from focusctx.jobs.records import Key, PlainRecord, RecordFile
from focusctx.replay.record import settings_text
from focusctx.types import Message

ANSWERS = "answers.jsonl"

FULL = "none"
"""The view that others are held against: the full history."""
AGAIN = "again"
"""The full history once more: how far the model agrees with itself."""
RECORDED = "recorded"
"""No view: what the recorded agent did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(PlainRecord):
    """One turn, at one point of a run, under one method."""

    file: str
    run: str
    messages: int
    """How many leading messages of the run were the history."""
    model: str
    """The model that was asked."""
    method: str
    draft: str = ""
    budget: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings, as in the records of points."""
    history_tokens: int
    sent_tokens: int
    """Tokens of the view, system prompt excluded."""
    span_tokens: int
    span_left: int
    turn: Message
    """The assistant message."""

    @property
    def place(self) -> tuple[str, str, int]:
        return self.file, self.run, self.messages

    @property
    def line(self) -> tuple[str, str, str]:
        """Key of the table line that the answer belongs to."""
        return self.method, self.draft, settings_text(self.settings)

    @property
    def key(self) -> Key:
        return *self.place, self.model, *self.line, self.budget


def answer_file(folder: Path) -> RecordFile[Answer]:
    return RecordFile(folder / ANSWERS, Answer.from_json)
