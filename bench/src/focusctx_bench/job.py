"""The job of a bench run: benchmarks, methods with their settings, tasks; and the folder that its records go to.

Two runs with equal jobs do the same work. How fast, how often again and for how much money it is done is no part of
the job. The folder holds the job (`run.json`), its records (`records.jsonl`) and every attempt (`attempts.jsonl`).
A task is done when its record is there. An attempt is written before its record, so that no money is forgotten.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote

from focusctx.errors import BenchError, ConfigError
from focusctx.jobs.records import LOCK, JobFolder, Key, PlainRecord, RecordFile

from .agent import SEED
from .baselines.summary import MODEL as LLMLINGUA_MODEL
from .protocols import Options, Task
from .record import Record, repeated

VERSION = 2

BUDGETS = {"appworld": 4096, "officebench": 2048, "qa8": 2048, "webvoyager": 4096, "tau2": 1024}
"""δ per benchmark; 4096 for others. The paper states the first three. The others are ours, by `recommended_budget` from
measured sizes: at 4,096 only 14 of 100 recorded runs of τ²-bench are ever compressed, at 1,024 93 are."""

SCRIPTED = "scripted"
"""Name of the benchmark's own draft, which needs no model."""

_USED: dict[str, tuple[str, ...]] = {
    "retrieval": ("budget", "embedder"),
    "llmlingua": ("budget", "llmlingua_model"),
    "prompting": ("budget", "compressor", "method_options"),
    "acon-ut": ("budget", "compressor", "guideline_ut", "method_options"),
    "acon-utco": ("budget", "compressor", "guideline_utco", "method_options"),
    "summary": ("budget", "compressor", "method_options"),
    "clear-tool-uses": ("budget", "method_options"),
    "focus": ("budget", "draft", "method_options"),
    "focus-note": ("budget", "draft", "method_options"),
    "random": ("budget", "draft", "method_options"),
    "newest": ("budget", "draft", "method_options"),
    "retrieval-matched": ("budget", "draft", "embedder", "method_options"),
    "focus-o": ("budget", "draft", "rollouts", "threshold", "rollout_mode"),
    "focus-d": ("budget", "draft", "rollouts", "threshold", "rollout_mode"),
}
"""The settings that each method reads; the others have none. A sweep repeats a method only over its own."""

OPTIONS_OF = {"focus-note": "focus", "random": "focus", "newest": "focus", "retrieval-matched": "focus"}
"""Methods that run FOCUS inside or beside them, and so read the options of `focus`."""
JOB = "run.json"
RECORDS = "records.jsonl"
ATTEMPTS = "attempts.jsonl"


@dataclass(frozen=True, slots=True)
class Variant:
    """A method with the settings that it reads."""

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The method and its settings, which no other variant has."""
        given = {name: value for name, value in self.settings.items() if value is not None and name != "method_options"}
        given |= self.settings.get("method_options") or {}
        settings = (f"{name}={quote(str(value), safe=':/@.,+')}" for name, value in given.items())
        return " ".join([self.method, *settings])

    @property
    def models(self) -> list[str]:
        """The models that the method asks, to plan or to write."""
        named = (self.settings.get(name) for name in ("draft", "compressor"))
        return [name for name in named if name not in (None, "offline", SCRIPTED)]


@dataclass(frozen=True, slots=True)
class TaskItem:
    """One task of one benchmark under one variant of a method."""

    benchmark: str
    variant: Variant
    task: Task
    repeat: int = 1
    """1 for the first run of the task, 2 for the second."""

    @property
    def key(self) -> Key:
        return self.benchmark, self.variant.name, repeated(self.task.id, self.repeat)

    def __str__(self) -> str:
        return f"{self.benchmark}, {self.variant.method}, {repeated(self.task.id, self.repeat)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    benchmarks: Mapping[str, Options]
    methods: tuple[str, ...]
    model: str | None = None
    """The agent's model; None for each benchmark's scripted agent."""
    drafts: tuple[str, ...] = ("offline",)
    budgets: tuple[int, ...] = ()
    """Empty for the paper's, which depends on the benchmark."""
    rollouts: tuple[int, ...] = (3,)
    thresholds: tuple[float, ...] = (0.3,)
    rollout_modes: tuple[str, ...] = ()
    """The way in which sketches are requested; empty for the draft's own way."""
    compressor: str | None = None
    """The model that writes summaries; None for each draft in turn."""
    embedder: str = "words"
    llmlingua_model: str = LLMLINGUA_MODEL
    guideline_ut: str | None = None
    """File with the guideline of acon-ut, or the name of one that this package carries."""
    guideline_utco: str | None = None
    method_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further settings by method, such as `{"focus": {"target": 0.5}}`."""
    through: str | None = None
    """The URL of a focusctx proxy that the agent's model is asked through, and that is asked what it saved."""
    count: int | None = None
    """Only the first `count` tasks of each benchmark."""
    tasks: tuple[str, ...] = ()
    """Only the tasks with these ids."""
    repeats: int = 1
    """Runs of each task under each variant, all with the same settings."""
    seed: int = SEED
    step_limit: int | None = None
    """The most turns of a task; None for the task's own limit."""

    @property
    def waits_for_models(self) -> bool:
        """True if some model is asked: then other tasks can run while one waits."""
        return self.model is not None or {*self.drafts, self.compressor} - {"offline", SCRIPTED, None} != set()

    def variants(self, benchmark: str) -> list[Variant]:
        """Return every method with every combination of the settings that it reads."""
        values: dict[str, Sequence[Any]] = {
            "budget": self.budgets_of(benchmark),
            "draft": self.drafts,
            "rollouts": self.rollouts,
            "threshold": self.thresholds,
            "rollout_mode": self.rollout_modes or (None,),
            "compressor": (self.compressor,) if self.compressor else self.drafts,
            "embedder": (self.embedder,),
            "llmlingua_model": (self.llmlingua_model,),
            "guideline_ut": (self.guideline_ut,),
            "guideline_utco": (self.guideline_utco,),
        }
        found = []
        for method in self.methods:
            values["method_options"] = [self.method_options.get(OPTIONS_OF.get(method, method), {})]
            names = _USED.get(method, ())
            for chosen in itertools.product(*(values[name] for name in names)):
                found.append(Variant(method, dict(zip(names, chosen, strict=True))))
        return found

    def budgets_of(self, benchmark: str) -> tuple[int, ...]:
        return self.budgets or (BUDGETS.get(benchmark, 4096),)

    def chosen(self, benchmark: str, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks to run, in the benchmark's order."""
        wanted = set(self.tasks)
        if self.tasks:
            return [task for task in tasks if task.id in wanted]
        if not tasks:
            raise BenchError(f"benchmark {benchmark} has no tasks in this split")
        return list(tasks[: self.count])

    def items(self, tasks: Mapping[str, Sequence[Task]]) -> Iterator[TaskItem]:
        """List all variants of one task before the next task, so that a run that is cut short can compare them."""
        for benchmark, some in tasks.items():
            variants = self.variants(benchmark)
            for repeat, task, variant in itertools.product(range(1, self.repeats + 1), some, variants):
                yield TaskItem(benchmark, variant, task, repeat)

    def settings(self, item: TaskItem) -> dict[str, Any]:
        """Return what a record says about how it was made."""
        options = self.benchmarks[item.benchmark]
        return {
            **{name: value for name, value in item.variant.settings.items() if name != "rollout_mode" or value},
            "split": options.split,
            **({"options": dict(options.more)} if options.more else {}),
            "seed": self.seed,
            "step_limit": self.step_limit,
            **({"through": self.through} if self.through else {}),
        }

    def to_json(self) -> dict[str, Any]:
        return {"version": VERSION, **json.loads(json.dumps(asdict(self), default=str))}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Job:
        if data.get("version") != VERSION:
            raise BenchError(f"the run was made by version {data.get('version')!r}, this program reads {VERSION}")
        try:
            # Runs that were begun before a setting existed have its default.
            given = {name.name: data[name.name] for name in fields(cls) if name.name in data}
            values: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
            }
            if "threshold" in data:  # runs from before several could be given
                values["thresholds"] = (data["threshold"],)
            values["benchmarks"] = {
                name: Options(**{**options, "data": None if options["data"] is None else Path(options["data"])})
                for name, options in data["benchmarks"].items()
            }
            return cls(**values)
        except (KeyError, TypeError, AttributeError) as error:
            raise BenchError(f"the settings of the run cannot be read: {error!r}") from error

    def differences(self, other: Job) -> list[str]:
        """Describe where another job differs, setting by setting."""
        ours, theirs = _flat(self.to_json()), _flat(other.to_json())
        names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        return [f"{name}: {_short(ours.get(name))} / {_short(theirs.get(name))}" for name in names]

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:8]

    def check(self) -> None:
        """Reject settings that no run could have, before it begins."""
        if not self.benchmarks or not self.methods:
            raise ConfigError("a run needs a benchmark and a method")
        if self.through and (self.model is None or f"@{self.through.rstrip('/')}/" not in f"{self.model}/"):
            raise ConfigError(
                f"--through {self.through}: --model must point to the same proxy, as openai:NAME@{self.through}/v1"
            )
        counts = {
            "budget": (0, self.budgets),
            "rollouts": (1, self.rollouts),
            "tasks": (1, (self.count or 1,)),
            "repeats": (1, (self.repeats,)),
        }
        for name, (least, numbers) in counts.items():
            if any(number < least for number in numbers):
                raise ConfigError(f"{name} must be {least} or more, got {min(numbers)}")


def _flat(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings by name, the options of each benchmark as `office.seed`."""
    options = {
        f"{benchmark}.{name}": value for benchmark, some in job["benchmarks"].items() for name, value in some.items()
    }
    return {**{name: value for name, value in job.items() if name != "benchmarks"}, **options}


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 60 else f"{text[:57]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(PlainRecord):
    """One attempt at a task: how it ended, what went wrong, what it cost."""

    benchmark: str
    variant: str
    task: str
    ended: str
    """The way it ended, as in the record; `failed` or `interrupted` where there is none."""
    seconds: float
    cost: float | None
    problem: str = ""
    trace: str = ""

    @property
    def key(self) -> Key:
        return self.benchmark, self.variant, self.task


class BenchFolder(JobFolder):
    def __init__(self, path: Path) -> None:
        super().__init__(path, JOB)
        self.records = RecordFile(path / RECORDS, Record.from_json)
        self.attempts = RecordFile(path / ATTEMPTS, Attempt.from_json)

    @property
    def has_job(self) -> bool:
        return self.about_path.is_file()

    def job(self) -> Job:
        return Job.from_json(self._about()["job"])

    def planned(self) -> dict[str, int]:
        """Return how many tasks of each benchmark the run is about."""
        return {name: len(ids) for name, ids in self._about()["tasks"].items()}

    def begin(self, job: Job, tasks: Mapping[str, Sequence[Task]]) -> None:
        """Begin, or go on if this is the folder of the same job over the same tasks.

        A job that never came to its first attempt, because no model answered, is no obstacle to another one.
        """
        about = {"job": job.to_json(), "tasks": {name: [task.id for task in some] for name, some in tasks.items()}}
        if not self.has_job and any(entry.name not in (LOCK, f"{JOB}.tmp") for entry in self.path.iterdir()):
            raise BenchError(f"{self.path} holds other things than a run: choose another folder")
        if not self.has_job or not (any(self.attempts) or any(self.records)):
            self.write_about(about)
        if differences := self.job().differences(job):
            raise BenchError(
                f"{self.path} holds a run with other settings (there / now: {'; '.join(differences)}): "
                "choose another folder, or give the same settings to go on with it"
            )
        if self._about()["tasks"] != about["tasks"]:
            raise BenchError(f"{self.path} holds a run over other tasks: the benchmark's data has changed since")

    def spent(self) -> float:
        """Return the USD of all attempts there ever were."""
        return sum(attempt.cost or 0.0 for attempt in self.attempts)

    def unfinished(self) -> int:
        """Return how many tasks have no record yet, over all variants."""
        job, planned = self.job(), self.planned()
        items = sum(planned[name] * len(job.variants(name)) * job.repeats for name in planned)
        return items - sum(1 for _ in self.records)

    def _about(self) -> dict[str, Any]:
        about = self.read_about()
        if not {"job", "tasks"} <= about.keys():
            raise BenchError(f"{self.about_path} does not hold the settings of a run")
        return about


def runs_below(path: Path) -> list[BenchFolder]:
    """Return the folder itself if it is that of a run, or all such folders in it."""
    if not path.is_dir():
        raise BenchError(f"{path} is not a folder")
    found = [BenchFolder(job.parent) for job in sorted(path.rglob(JOB))]
    if not found:
        raise BenchError(f"{path} contains no run of the bench (no {JOB}): make one with `focusctx bench run`")
    return found
