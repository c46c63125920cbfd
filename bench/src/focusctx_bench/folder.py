"""The folder of a bench run: its job (`run.json`), its records (`records.jsonl`), every attempt (`attempts.jsonl`).

A task is done when its record is there. An attempt is written before its record, so that no money is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from focusctx.errors import BenchError
from focusctx.jobs.records import LOCK, JobFolder, Key, PlainRecord, RecordFile

from .job import Job
from .protocols import Task
from .record import Record

JOB = "run.json"
RECORDS = "records.jsonl"
ATTEMPTS = "attempts.jsonl"


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
