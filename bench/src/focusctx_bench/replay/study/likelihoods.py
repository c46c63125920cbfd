"""What the leave-one-out pass records of one event: how likely each text is with all spans, and without each.

One line of JSON per event. Everything the study says about divergences is computed from these lines, so that a
model is needed once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from focusctx.errors import BenchError
from focusctx.replay.files import read_text
from focusctx.replay.sketches import Place


class Kind(StrEnum):
    """What a scored text is."""

    ACTION = "action"
    """One of the vocabulary: a next action the model thinks possible."""
    PLAN = "plan"
    """A plan the model wrote freely, citing nothing."""
    TAKEN = "taken"
    """What the agent really did next."""


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
    """Of each text, after the whole history."""
    without: Mapping[int, tuple[float, ...]]
    """The same with one span left out, by its index."""

    def logs(self, kind: Kind, *, without: int | None = None) -> list[float]:
        values = self.full if without is None else self.without[without]
        return [value for value, text in zip(values, self.texts, strict=True) if text.kind == kind]

    def tokens(self, kind: Kind) -> list[int]:
        return [text.tokens for text in self.texts if text.kind == kind]


def to_line(scored: Likelihoods) -> str:
    file, run, messages = scored.place
    fields = {
        "file": file,
        "id": run,
        "messages": messages,
        "budget": scored.budget,
        "model": scored.model,
        "texts": [{"kind": text.kind, "text": text.text, "tokens": text.tokens} for text in scored.texts],
        "full": [round(value, 5) for value in scored.full],
        "without": {str(index): [round(value, 5) for value in row] for index, row in scored.without.items()},
    }
    return json.dumps(fields, ensure_ascii=False)


def from_fields(fields: Mapping[str, Any]) -> Likelihoods:
    return Likelihoods(
        place=(fields["file"], fields["id"], fields["messages"]),
        budget=fields["budget"],
        model=fields["model"],
        texts=tuple(Text(Kind(text["kind"]), text["text"], text["tokens"]) for text in fields["texts"]),
        full=tuple(fields["full"]),
        without={int(index): tuple(row) for index, row in fields["without"].items()},
    )


def read_likelihoods(path: Path) -> Iterator[Likelihoods]:
    """The finished lines of a file; a last line that a stopped pass left half written is passed over."""
    lines = read_text(path).split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield from_fields(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                return
            raise BenchError(f"{path}, line {number}: no recorded likelihoods ({error})") from error
