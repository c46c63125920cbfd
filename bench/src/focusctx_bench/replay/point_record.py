"""The record of one event over the full history at one point of a run, under one method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from focusctx.jobs.records import Key, PlainRecord, RecordFile
from focusctx.replay.record import settings_text, share_of
from focusctx.types import Usage

POINTS = "points.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRecord(PlainRecord):
    file: str
    run: str
    messages: int
    """How many leading messages of the run were the history."""
    method: str
    draft: str
    budget: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    event: bool
    failure: str | None = None
    unanswered: bool = False
    """True if it failed because a model gave no answer: the point is to be judged again."""
    span_tokens: int
    span_left: int
    history_tokens: int
    sent_tokens: int
    needed: int
    """Distinct facts that later actions use and that only past spans gave."""
    there: int
    words_lost: int
    floored: bool = False
    usage: Usage
    seconds: float

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> PointRecord:
        return cls(usage=Usage(**data.pop("usage")), **data)

    @property
    def place(self) -> tuple[str, ...]:
        return self.file, self.run, str(self.messages)

    @property
    def key(self) -> Key:
        return self.file, self.run, self.messages, self.method, self.draft, self.budget, settings_text(self.settings)

    @property
    def events(self) -> int:
        return int(self.event)

    @property
    def failures(self) -> int:
        return int(self.failure is not None)

    @property
    def recall(self) -> float | None:
        """None where no later action needs anything."""
        return share_of([(self.there, self.needed)])

    @property
    def whole(self) -> bool | None:
        """Whether everything is there that later actions need."""
        return self.there == self.needed if self.needed else None

    @property
    def span_share(self) -> float | None:
        return share_of([(self.span_left, self.span_tokens)])

    @property
    def history_share(self) -> float | None:
        return share_of([(self.sent_tokens, self.history_tokens)])

    @property
    def floored_share(self) -> float:
        return float(self.floored)


def point_records(folder: Path) -> RecordFile[PointRecord]:
    return RecordFile(folder / POINTS, PointRecord.from_json)
