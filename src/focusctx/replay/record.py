"""Records of a replay, one JSON line each: a run under a method, or one point under a method.

A folder holds `runs.jsonl` (walks) and `points.jsonl` (single events). Lines are only appended, each whole: a replay
that was killed continues with the missing ones. If a model gave no answer, a later line with the same key replaces the
record. In a line, steps are plain arrays, to keep it short.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..errors import BenchError
from ..types import Usage
from .files import PACKED

RUNS = "runs.jsonl"
POINTS = "points.jsonl"


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One call of the agent."""

    step: int
    """The span that it produced, counted from 1."""
    due: bool
    """True if the full history was over δ: the same steps for every method."""
    event: bool
    """True if something sent before was no longer sent."""
    span_tokens: int
    """Tokens of all spans so far, which compression can affect."""
    span_left: int
    """Span tokens in the view; text written by the method counts too."""
    history_tokens: int
    """Tokens of the whole history, system prompt excluded."""
    sent_tokens: int
    """Tokens of the view, system prompt excluded: `n_i`."""
    needed: int
    """Number of facts of the action that only past spans provided."""
    there: int
    """Number of those in the view."""
    repeated: bool = False
    """True if the action repeats, word for word, a call that failed before, and fails again."""
    forgotten: bool = False
    """… and the view showed no such failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run under one method."""

    file: str
    run: str
    method: str
    """The method, e.g. `focus-d`; `fifo@focus-d` for newest spans given as many tokens as focus-d left."""
    draft: str
    """The draft; "" for methods without one."""
    budget: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All other settings of the method."""
    steps: tuple[StepRecord, ...]
    events: int
    failures: int
    """Number of compressions that were due and failed …"""
    failure: str | None = None
    """… the first of them for this reason …"""
    unanswered: int = 0
    """… and the number that failed because a model gave no answer: the run is to be walked again."""
    words_lost: int
    """Number of texts of the user or of system prompts that some view lacked; must be 0."""
    floored: int = 0
    """Number of due steps at which a matched comparator could not go as low as required."""
    peak: int
    """Largest view: `max n_i`."""
    dependency: float
    """Dependency: `Σ (n_i + 2 n_o)·n_o / 2`."""
    cost: float | None
    """USD of the agent's calls without a provider's cache, sketches not included; None without a price."""
    cost_cached: float | None
    """USD of the agent's calls if the provider caches prefixes."""
    usage: Usage
    """Usage of the draft, summariser or embedder."""
    seconds: float
    """Seconds that the method took, over all steps."""

    @property
    def key(self) -> Key:
        return self.file, self.run, self.method, self.draft, self.budget, settings_text(self.settings)

    @property
    def due(self) -> tuple[StepRecord, ...]:
        return tuple(step for step in self.steps if step.due)

    @property
    def recall(self) -> float | None:
        """Share of the facts needed by actions at due steps that were in the view, counted action by action."""
        return _share((step.there, step.needed) for step in self.due)

    @property
    def supported(self) -> float | None:
        """Share of the actions at due steps with needs that had all their facts."""
        return _share((step.there == step.needed, 1) for step in self.due if step.needed)

    @property
    def span_share(self) -> float | None:
        """Share of the span tokens, over due steps, that was sent."""
        return _share((step.span_left, step.span_tokens) for step in self.due)

    @property
    def history_share(self) -> float | None:
        """Share of the history's tokens, system prompt excluded, over due steps, that was sent."""
        return _share((step.sent_tokens, step.history_tokens) for step in self.due)

    @property
    def repeated(self) -> int:
        """Number of calls at due steps that failed before, word for word, and failed again …"""
        return sum(step.repeated for step in self.due)

    @property
    def forgotten(self) -> int:
        """… and whose failure was not in the view."""
        return sum(step.forgotten for step in self.due)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "steps": [[*map(int, astuple(step))] for step in self.steps]}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> RunRecord:
        steps = tuple(_step(step) for step in told.pop("steps"))
        return cls(steps=steps, usage=Usage(**told.pop("usage")), **told)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRecord:
    """One event over the full history at one point of a run, under one method."""

    file: str
    run: str
    messages: int
    """Number of leading messages of the run that formed the history."""
    method: str
    draft: str
    budget: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    event: bool
    failure: str | None = None
    unanswered: bool = False
    """True if a model gave no answer: the point is to be judged again."""
    span_tokens: int
    span_left: int
    history_tokens: int
    sent_tokens: int
    needed: int
    """Number of distinct facts that later actions use and that only past spans provided."""
    there: int
    words_lost: int
    floored: bool = False
    usage: Usage
    seconds: float

    @property
    def key(self) -> Key:
        return self.file, self.run, self.messages, self.method, self.draft, self.budget, settings_text(self.settings)

    @property
    def recall(self) -> float | None:
        """Share of the needed facts in the view; None if no later action needs any."""
        return _share([(self.there, self.needed)])

    @property
    def complete(self) -> bool | None:
        """True if the view has every needed fact; None if none is needed."""
        return self.there == self.needed if self.needed else None

    @property
    def span_share(self) -> float | None:
        return _share([(self.span_left, self.span_tokens)])

    @property
    def history_share(self) -> float | None:
        return _share([(self.sent_tokens, self.history_tokens)])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> PointRecord:
        return cls(usage=Usage(**told.pop("usage")), **told)


Key = tuple[str | int, ...]
"""Identifies a record among all others of its kind."""

R = TypeVar("R", RunRecord, PointRecord)


class Records(Generic[R]):
    """A file of records that can be read and appended to."""

    def __init__(self, path: Path, kind: type[R]) -> None:
        self.path = path
        self._read: Callable[[dict[str, Any]], R] = kind.from_json

    def __iter__(self) -> Iterator[R]:
        """Yield all records, only the last of those with the same key. An incomplete last line is skipped."""
        if not self.path.exists():
            return
        found: dict[Key, R] = {}
        lines = self.path.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines[:-1], 1):
            if not line:
                continue
            try:
                record = self._read(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise BenchError(f"{self.path} line {number} is no record of a replay: {error!r}") from error
            found[record.key] = record
        yield from found.values()

    def done(self) -> set[Key]:
        """Return the keys of the records that need not be made again."""
        return {record.key for record in self if not record.unanswered}

    def add(self, records: Iterable[R]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(record.to_json(), ensure_ascii=False, separators=(",", ":")) for record in records]
        end_the_last_line(self.path)
        with self.path.open("ab", buffering=0) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())


def run_records(folder: Path) -> Records[RunRecord]:
    return Records(folder / RUNS, RunRecord)


def point_records(folder: Path) -> Records[PointRecord]:
    return Records(folder / POINTS, PointRecord)


def end_the_last_line(path: Path) -> None:
    """Remove an incomplete last line, left by a kill: it would spoil the next one."""
    if path.suffix == PACKED:
        raise BenchError(f"{path} is packed, nothing can be added to it: unpack it with gunzip, or name another file")
    if not path.exists():
        return
    with path.open("rb+") as file:
        if not file.seek(0, os.SEEK_END):
            return
        file.seek(-1, os.SEEK_END)
        if file.read(1) == b"\n":
            return
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def _share(parts: Iterable[tuple[int, int]]) -> float | None:
    """Return the sum of parts over the sum of wholes; None if the latter is 0."""
    some, whole = map(sum, zip(*[(0, 0), *parts], strict=True))
    return some / whole if whole else None


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return settings as text, for a key."""
    return json.dumps(settings, sort_keys=True)


def _step(told: list[int]) -> StepRecord:
    flags = {"due", "event", "repeated", "forgotten"}
    names = [one.name for one in fields(StepRecord)]
    values: dict[str, Any] = dict(zip(names, told, strict=True))
    return StepRecord(**values | {name: bool(values[name]) for name in flags})
