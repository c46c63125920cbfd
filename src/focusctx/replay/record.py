"""What a replay found out, one JSON line per record: a run under a method, or one point under a method.

A folder holds `runs.jsonl` (walks) and `points.jsonl` (single events). Lines are only ever added, each whole: a
replay that was killed goes on with what is missing. Where a model gave no answer, a later line with the same key
counts instead. In a line, steps are plain arrays, to keep it short.
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
    """The span that it made, counted from 1."""
    due: bool
    """The full history was over δ: the same steps for every method."""
    event: bool
    """Something that had been sent before was sent no more."""
    span_tokens: int
    """Of all spans so far: what compression can touch."""
    span_left: int
    """Of those, in the view; what a method wrote itself counts too."""
    history_tokens: int
    """Of the whole history, system prompt excluded."""
    sent_tokens: int
    """Of the view, system prompt excluded: `n_i`."""
    needed: int
    """Facts of the action that only past spans gave."""
    there: int
    """Of those, in the view."""
    repeated: bool = False
    """The action is a call that had failed before, word for word, and fails again."""
    forgotten: bool = False
    """… and no view of that failure was left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run under one method."""

    file: str
    run: str
    method: str
    """`focus-d`; `fifo@focus-d` for newest spans that were given as many tokens as focus-d left."""
    draft: str
    """Who sketched; "" for methods without a draft."""
    budget: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the method was told."""
    steps: tuple[StepRecord, ...]
    events: int
    failures: int
    """Compressions that were due and failed …"""
    failure: str | None = None
    """… the first of them for this reason …"""
    unanswered: int = 0
    """… and those of them that failed because a model gave no answer: the run is to be walked again."""
    words_lost: int
    """Texts of the user or of system prompts that some view lacked; must be 0."""
    floored: int = 0
    """Due steps at which a matched comparator could not go as low as it should have."""
    peak: int
    """`max n_i`."""
    dependency: float
    """`Σ (n_i + 2 n_o)·n_o / 2`."""
    cost: float | None
    """USD of the agent's calls without a provider's cache, sketches not included; None without a price."""
    cost_cached: float | None
    """The same where the provider caches prefixes."""
    usage: Usage
    """Of the draft, summariser or embedder."""
    seconds: float
    """That the method took, over all steps."""

    @property
    def key(self) -> Key:
        return self.file, self.run, self.method, self.draft, self.budget, settings_text(self.settings)

    @property
    def due(self) -> tuple[StepRecord, ...]:
        return tuple(step for step in self.steps if step.due)

    @property
    def recall(self) -> float | None:
        """Of the facts that actions at due steps needed, action by action, the share that stood in the view."""
        return _share((step.there, step.needed) for step in self.due)

    @property
    def supported(self) -> float | None:
        """Of the actions at due steps that needed something, the share that had all of it."""
        return _share((step.there == step.needed, 1) for step in self.due if step.needed)

    @property
    def span_share(self) -> float | None:
        """Of the tokens of spans, over due steps, the share that was sent."""
        return _share((step.span_left, step.span_tokens) for step in self.due)

    @property
    def history_share(self) -> float | None:
        """The same of the whole history, system prompt excluded."""
        return _share((step.sent_tokens, step.history_tokens) for step in self.due)

    @property
    def repeated(self) -> int:
        """Calls at due steps that had failed before, word for word, and failed again …"""
        return sum(step.repeated for step in self.due)

    @property
    def forgotten(self) -> int:
        """… and of which no failure was left in the view."""
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
    """How many leading messages of the run were the history."""
    method: str
    draft: str
    budget: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    event: bool
    failure: str | None = None
    unanswered: bool = False
    """It failed because a model gave no answer: the point is to be judged again."""
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

    @property
    def key(self) -> Key:
        return self.file, self.run, self.messages, self.method, self.draft, self.budget, settings_text(self.settings)

    @property
    def recall(self) -> float | None:
        """None where no later action needs anything."""
        return _share([(self.there, self.needed)])

    @property
    def complete(self) -> bool | None:
        """Whether everything is there that later actions need."""
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
"""What tells a record from all others of its kind."""

R = TypeVar("R", RunRecord, PointRecord)


class Records(Generic[R]):
    """A file of records, read and added to."""

    def __init__(self, path: Path, kind: type[R]) -> None:
        self.path = path
        self._read: Callable[[dict[str, Any]], R] = kind.from_json

    def __iter__(self) -> Iterator[R]:
        """All of them; of those that were made again the last. A last line that a kill cut short is left out."""
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
        """Those that are not to be made again."""
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
    """Take away what a kill left of a line: the next one must not be lost with it."""
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
    """Of all parts together; None where there is nothing to have a share of."""
    some, whole = map(sum, zip(*[(0, 0), *parts], strict=True))
    return some / whole if whole else None


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings as part of a key."""
    return json.dumps(settings, sort_keys=True)


def _step(told: list[int]) -> StepRecord:
    flags = {"due", "event", "repeated", "forgotten"}
    names = [one.name for one in fields(StepRecord)]
    values: dict[str, Any] = dict(zip(names, told, strict=True))
    return StepRecord(**values | {name: bool(values[name]) for name in flags})
