"""Collect the numbers of each method from the files of one or more runs, one record at a time.

A `Study` is what can be compared: one benchmark, one split, one agent. A `Line` is a method with its settings in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from focusctx.replay.names import NAMES

from ..baselines.registry import ALL
from ..folder import runs_below
from ..metrics import Summary, TaskMetrics, average, by_difficulty, events_by_step, of_task, summarise
from ..record import Record

_OF_THE_STUDY = ("split", "options", "seed", "step_limit")
_NAMES = {**NAMES, "fifo": "FIFO", "retrieval": "Retrieval"}


@dataclass
class Line:
    """One method with its settings: the numbers of its tasks."""

    method: str
    settings: Mapping[str, Any]
    repeats: dict[int, dict[str, TaskMetrics]] = field(default_factory=dict)
    """For each repeat, from 1: its tasks."""
    events: dict[int, tuple[int, int]] = field(default_factory=dict)
    """For each step number: how many runs got there, and how many of them had an event there."""

    def add(self, record: Record) -> None:
        self.repeats.setdefault(record.repeat, {})[record.task] = of_task(record)
        for number, (runs, events) in events_by_step([record]).items():
            before = self.events.get(number, (0, 0))
            self.events[number] = before[0] + runs, before[1] + events

    @cached_property
    def tasks(self) -> dict[str, TaskMetrics]:
        """Every task once, as the mean of its repeats. Read it when all records were added."""
        runs: dict[str, list[TaskMetrics]] = {}
        for some in self.repeats.values():
            for name, metrics in some.items():
                runs.setdefault(name, []).append(metrics)
        return {name: average(some) for name, some in runs.items()}

    @property
    def name(self) -> str:
        """The method as tables name it, with the rollout mode if one was chosen.

        Retrieval says by which vectors: shared words are not an embedding.
        """
        name = _NAMES.get(self.method, self.method)
        if mode := self.settings.get("rollout_mode"):
            return f"{name}, {'n = N' if mode == 'n' else mode}"
        embedder = self.settings.get("embedder")
        if embedder is None:
            return name
        return f"{name} (shared words)" if embedder == "words" else f"{name} ({embedder.partition('@')[0]})"

    @property
    def is_focus(self) -> bool:
        return self.method.startswith("focus")

    @property
    def writer(self) -> str | None:
        """The model that the method asks, if it does."""
        return self.settings.get("draft") or self.settings.get("compressor")

    @cached_property
    def summary(self) -> Summary:
        return summarise(self.tasks.values())

    @cached_property
    def classes(self) -> dict[str, Summary]:
        """By difficulty."""
        return {name: summarise(some) for name, some in by_difficulty(self.tasks.values()).items()}


@dataclass
class Study:
    benchmark: str
    model: str
    settings: Mapping[str, Any]
    """Settings of the benchmark: split, options, seed, step limit."""
    planned: int = 0
    """Tasks that a run was to do."""
    lines: list[Line] = field(default_factory=list)

    @property
    def options(self) -> Mapping[str, str]:
        return self.settings.get("options") or {}

    @property
    def title(self) -> str:
        words = [*self.options.values(), self.settings.get("split") or ""]
        return " ".join([self.benchmark, *(word for word in words if word)])


def collect(folder: Path) -> list[Study]:
    """Everything below a folder; a task that two runs have done with the same settings counts once."""
    studies: dict[str, Study] = {}
    lines: dict[tuple[str, str], Line] = {}
    for run in runs_below(folder):
        planned = run.planned()
        for record in run.records:
            study = _study(record, studies)
            study.planned = max(study.planned, planned.get(record.benchmark, 0))
            _line(record, study, lines).add(record)
    for study in studies.values():
        study.lines.sort(key=_order)
    return list(studies.values())


def _study(record: Record, studies: dict[str, Study]) -> Study:
    settings = {name: record.settings.get(name) for name in _OF_THE_STUDY}
    key = repr((record.benchmark, record.model, settings))
    return studies.setdefault(key, Study(record.benchmark, record.model, settings))


def _line(record: Record, study: Study, lines: dict[tuple[str, str], Line]) -> Line:
    settings = {name: value for name, value in record.settings.items() if name not in _OF_THE_STUDY}
    key = repr((study.benchmark, study.model, study.settings)), repr((record.method, settings))
    if key not in lines:
        lines[key] = Line(record.method, settings)
        study.lines.append(lines[key])
    return lines[key]


def _order(line: Line) -> tuple[Any, ...]:
    place = ALL.index(line.method) if line.method in ALL else len(ALL)
    return place, line.writer or "", line.settings.get("budget") or 0, line.settings.get("rollouts") or 0
