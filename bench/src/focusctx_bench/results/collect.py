"""Collect the numbers of each method from the files of one or more runs, and choose the lines that a table compares.

A `Study` is what can be compared: one benchmark, one split, one agent. A `StudyLine` is a method with its settings in
it. A table compares all methods at one setting, or one setting varied with the rest fixed. The paper's own figures
(`paper.toml`) stand beside a line that has the paper's setting.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from focusctx.replay.lines import NAMES

from ..baselines.registry import ALL
from ..baselines.summary import MODEL as LLMLINGUA_MODEL
from ..baselines.summary import SHIPPED
from ..job import BUDGETS, runs_below
from ..metrics import Summary, TaskMetrics, average, by_difficulty, of_task, summarise
from ..record import Record

_RELEASE = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_OF_THE_STUDY = ("split", "options", "seed", "step_limit")
_NAMES = {**NAMES, "fifo": "FIFO", "retrieval": "Retrieval"}
VARIED = ("budget", "draft", "rollouts", "threshold")
_TOTALS = (
    "agent_in", "agent_out", "agent_requests", "draft_in", "draft_out", "draft_requests", "agent_cost", "draft_cost",
    "cost", "events",
)  # fmt: skip
_TASKS = {"appworld": 168, "officebench": 95, "qa8": 100}
"""Tasks that the paper ran of each benchmark whose figures are here."""


@dataclass
class StudyLine:
    """One method with its settings: the numbers of its tasks."""

    method: str
    settings: Mapping[str, Any]
    repeats: dict[int, dict[str, TaskMetrics]] = field(default_factory=dict)
    """For each repeat, from 1: its tasks."""
    event_steps: list[list[tuple[int, bool]]] = field(default_factory=list)
    """For each run: its steps by number, and whether each had an event."""

    def add(self, record: Record) -> None:
        self.repeats.setdefault(record.repeat, {})[record.task] = of_task(record)
        events = (step.event is not None and step.event.failure is None for step in record.steps)
        self.event_steps.append(list(enumerate(events, 1)))

    @cached_property
    def tasks(self) -> dict[str, TaskMetrics]:
        """Tasks, each once, as the mean of its repeats. Read it when all records were added."""
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
        """Summaries by difficulty."""
        return {name: summarise(some) for name, some in by_difficulty(self.tasks.values()).items()}


@dataclass
class Study:
    benchmark: str
    model: str
    settings: Mapping[str, Any]
    """Settings of the benchmark: split, options, seed, step limit."""
    planned: int = 0
    """Tasks that a run was to do."""
    lines: list[StudyLine] = field(default_factory=list)

    @property
    def options(self) -> Mapping[str, str]:
        return self.settings.get("options") or {}

    @property
    def title(self) -> str:
        words = [*self.options.values(), self.settings.get("split") or ""]
        return " ".join([self.benchmark, *(word for word in words if word)])


def collect(folder: Path) -> list[Study]:
    """Read everything below a folder; a task that two runs have done with the same settings counts once."""
    studies: dict[str, Study] = {}
    lines: dict[str, StudyLine] = {}
    for run in runs_below(folder):
        planned = run.planned()
        for record in run.records:
            shared = {name: record.settings.get(name) for name in _OF_THE_STUDY}
            key = repr((record.benchmark, record.model, shared))
            study = studies.setdefault(key, Study(record.benchmark, record.model, shared))
            study.planned = max(study.planned, planned.get(record.benchmark, 0))
            own = {name: value for name, value in record.settings.items() if name not in _OF_THE_STUDY}
            key += repr((record.method, own))
            if key not in lines:
                lines[key] = StudyLine(record.method, own)
                study.lines.append(lines[key])
            lines[key].add(record)
    for study in studies.values():
        study.lines.sort(key=_order)
    return list(studies.values())


def _order(line: StudyLine) -> tuple[Any, ...]:
    place = ALL.index(line.method) if line.method in ALL else len(ALL)
    return place, line.writer or "", line.settings.get("budget") or 0, line.settings.get("rollouts") or 0


def main_lines(study: Study) -> list[StudyLine]:
    """Return every method at the reference setting."""
    return [line for line in study.lines if _is_at_reference(line, study)]


def varied_lines(study: Study, setting: str) -> list[StudyLine]:
    """Return methods that were run at several values of one setting, the others as in the main table."""
    found = [line for line in study.lines if value_of(line, setting) is not None]
    found = [line for line in found if _is_at_reference(line, study, but=setting)]
    methods, order = [line.method for line in found], [line.method for line in study.lines]
    return sorted(
        (line for line in found if methods.count(line.method) > 1),
        key=lambda line: (order.index(line.method), value_of(line, setting)),
    )


def value_of(line: StudyLine, setting: str) -> Any:
    return line.writer if setting == "draft" else line.settings.get(setting)


def reference(study: Study, setting: str) -> Any:
    """Return the paper's value if it was run, else the one that most methods were run at."""
    values = [value for line in study.lines if (value := value_of(line, setting)) is not None]
    wanted = {"budget": BUDGETS.get(study.benchmark, 4096), "rollouts": 3, "threshold": 0.3, "draft": study.model}[
        setting
    ]
    for value in values:
        if value == wanted or (setting == "draft" and plain_name(value) == plain_name(study.model)):
            return value
    return max(sorted(set(values)), key=values.count, default=None)


def _is_at_reference(line: StudyLine, study: Study, but: str = "") -> bool:
    for setting in VARIED:
        value = value_of(line, setting)
        if setting == but or value is None:
            continue
        wanted = reference(study, setting)
        own = {value_of(other, setting) for other in study.lines if other.method == line.method}
        # A method that was never run at the study's reference (a compressor of its own) has its own.
        if value != (wanted if wanted in own else min(own)):
            return False
    return True


def same_for_all(lines: Sequence[StudyLine], setting: str) -> Any:
    """Return the value that all lines which have the setting share; None if they differ or none has it."""
    values = {value for line in lines if (value := value_of(line, setting)) is not None}
    return values.pop() if len(values) == 1 else None


def plain_name(model: str) -> str:
    """Return a model's name without its provider, server and release: `openai:gpt-4.1-2025-04-14` is `gpt-4.1`."""
    return _RELEASE.sub("", re.split(r"[:/]", model.partition("@")[0].lower())[-1])


def paper_figures(study: Study, line: StudyLine, difficulty: str = "") -> dict[str, float]:
    """Return the figures by their names in `paper.toml`, totals per task; none where the paper has another setting."""
    found: dict[str, float] = {}
    for table in _tables_with(study, line, difficulty):
        for name, figure in zip(table["columns"], table["rows"][line.method], strict=True):
            found.setdefault(name, figure / table["tasks"] if name in _TOTALS else float(figure))
    return found


def paper_source(study: Study) -> tuple[list[str], int | None]:
    """Return the labels of the tables that figures for this study are from, and how many tasks are behind the main."""
    main = [table for line in study.lines for table in _tables_with(study, line, "")]
    others = [table for line in study.lines for name in line.classes for table in _tables_with(study, line, name)]
    tasks = max((table["tasks"] for table in main if table.get("tasks")), default=None)
    return sorted({table["label"] for table in (*main, *others)}), tasks


def _tables_with(study: Study, line: StudyLine, difficulty: str) -> list[dict[str, Any]]:
    tables = (table for table in transcribed_tables() if line.method in table["rows"])
    return [table for table in tables if _is_that_of(table, study, line, difficulty)]


def _is_that_of(table: Mapping[str, Any], study: Study, line: StudyLine, difficulty: str) -> bool:
    return (
        study.benchmark == table["benchmark"]
        and (study.settings.get("split") or "") in table["splits"]
        and study.settings.get("seed", 42) == 42
        and study.settings.get("step_limit") in (None, 50)
        and _is_model(study.model, table["agent"])
        and difficulty.lower() == table.get("difficulty", "")
        and _has_its_tasks(table, study, line, difficulty)
        and _has_its_settings(table, line)
    )


def _is_model(name: str, wanted: str) -> bool:
    """True if this is the paper's model. OpenAI's are asked at OpenAI or Azure, open weights anywhere.

    A server of one's own may give any name to any model: `openai:gpt-4.1@http://localhost` is not the paper's.
    """
    if plain_name(name) != wanted:
        return False
    return not wanted.startswith("gpt-") or (name.partition(":")[0] in ("openai", "azure") and "@" not in name)


def _has_its_tasks(table: Mapping[str, Any], study: Study, line: StudyLine, difficulty: str) -> bool:
    """True if the line has run as many tasks as the paper, from where the paper had them."""
    if len(line.tasks) != _TASKS[study.benchmark]:
        return False
    if difficulty and "tasks" in table and line.classes[difficulty].tasks != table["tasks"]:
        return False
    if study.benchmark == "officebench":  # its test split is a list that the user has to give
        return "splits" in study.options
    if study.benchmark == "qa8":  # prepared groups, which their own file says to be for testing
        limited = study.options.keys() & {"passages", "searches", "per_turn"}
        return (
            "retriever" in study.options
            and not limited
            and all(re.fullmatch(r"qa8-test-\d+", task) for task in line.tasks)
        )
    return True


def _has_its_settings(table: Mapping[str, Any], line: StudyLine) -> bool:
    """True if everything that the method reads is as in the paper.

    Retrieval never is: the paper does not name its embedder. Nor is ACON with a guideline that this package carries: it
    was made with other agents.
    """
    settings = line.settings
    guideline = settings.get("guideline_ut") or settings.get("guideline_utco") or ""
    return (
        line.method != "retrieval"
        and not guideline.startswith(SHIPPED)
        and (line.writer is None or _is_model(line.writer, table.get("compressor", "")))
        and settings.get("budget") in (None, table.get("budget"))
        and settings.get("rollouts", 3) == table.get("rollouts", 3)
        and settings.get("threshold", 0.3) == 0.3
        and (not line.is_focus or table.get("rollout_mode") in (None, settings.get("rollout_mode")))
        and settings.get("llmlingua_model", LLMLINGUA_MODEL) == LLMLINGUA_MODEL
    )


@cache
def transcribed_tables() -> list[dict[str, Any]]:
    """Return the tables of `paper.toml`."""
    text = files(__package__).joinpath("paper.toml").read_text("utf-8")
    tables: list[dict[str, Any]] = tomllib.loads(text)["table"]
    return tables
