"""Log-likelihoods of one event's texts, with all spans and without each: the records of the leave-one-out pass.

Everything the study says about divergences is computed from these records, so that a model is needed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from focusctx.jobs.records import RecordFile

from ..points import Place


class Kind(StrEnum):
    """Kinds of scored texts."""

    ACTION = "action"
    """One of the vocabulary: a next action the model thinks possible."""
    PLAN = "plan"
    """A plan the model wrote freely, citing nothing."""
    TAKEN = "taken"
    """The action that the agent took next."""


@dataclass(frozen=True, slots=True)
class Text:
    kind: Kind
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Likelihoods:
    """One event's log-likelihoods, in nats."""

    place: Place
    budget: int
    model: str
    texts: tuple[Text, ...]
    full: tuple[float, ...]
    """Log-likelihood of each text, after the whole history."""
    without: Mapping[int, tuple[float, ...]]
    """Log-likelihoods with one span left out, by its index."""

    @property
    def key(self) -> Place:
        return self.place

    def to_json(self) -> dict[str, Any]:
        file, run, messages = self.place
        return {
            "file": file,
            "id": run,
            "messages": messages,
            "budget": self.budget,
            "model": self.model,
            "texts": [{"kind": text.kind, "text": text.text, "tokens": text.tokens} for text in self.texts],
            "full": [round(value, 5) for value in self.full],
            "without": {str(index): [round(value, 5) for value in row] for index, row in self.without.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Likelihoods:
        return cls(
            place=(data["file"], data["id"], data["messages"]),
            budget=data["budget"],
            model=data["model"],
            texts=tuple(Text(Kind(text["kind"]), text["text"], text["tokens"]) for text in data["texts"]),
            full=tuple(data["full"]),
            without={int(index): tuple(row) for index, row in data["without"].items()},
        )

    def logs(self, kind: Kind, *, without: int | None = None) -> list[float]:
        values = self.full if without is None else self.without[without]
        return [value for value, text in zip(values, self.texts, strict=True) if text.kind == kind]

    def tokens(self, kind: Kind) -> list[int]:
        return [text.tokens for text in self.texts if text.kind == kind]


def likelihood_file(path: Path) -> RecordFile[Likelihoods]:
    return RecordFile(path, Likelihoods.from_json)
