"""The folder of a run: what it is to do (`run.json`), what is done (`records/`), every attempt (`attempts.jsonl`).

A task is done when its record is there, and a record is there whole or not at all: so a run can be killed at any
moment and goes on where it was. An attempt is noted before its record is put in place, so no money is forgotten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from focusctx.errors import BenchError

from .job import Job, Unit, Variant
from .record import Record, file_name, write_record
from .seams import Task

JOB = "run.json"
RECORDS = "records"
ATTEMPTS = "attempts.jsonl"
LOCK = ".lock"


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def has_job(self) -> bool:
        return (self.path / JOB).is_file()

    def job(self) -> Job:
        return Job.from_json(_read(self.path / JOB)["job"])

    def planned(self) -> dict[str, int]:
        """How many tasks of each benchmark the run is about."""
        return {name: len(ids) for name, ids in _read(self.path / JOB)["tasks"].items()}

    def open(self, job: Job, tasks: Mapping[str, Sequence[Task]]) -> None:
        """Begin, or go on if this is the folder of the same job over the same tasks.

        A job that never came to its first attempt, because nobody answered, is no obstacle to another one.
        """
        told = {"job": job.to_json(), "tasks": {name: [task.id for task in some] for name, some in tasks.items()}}
        if not self.has_job and any(entry.name not in (LOCK, f"{JOB}.tmp") for entry in self.path.iterdir()):
            raise BenchError(f"{self.path} holds other things than a run: choose another folder")
        if not self.has_job or not (any(self.attempts()) or (self.path / RECORDS).exists()):
            _write(self.path / JOB, told)
        if differences := self.job().differences(job):
            raise BenchError(
                f"{self.path} holds a run with other settings (there / now: {'; '.join(differences)}): "
                "choose another folder, or give the same settings to go on with it"
            )
        if _read(self.path / JOB)["tasks"] != told["tasks"]:
            raise BenchError(f"{self.path} holds a run over other tasks: the benchmark's data has changed since")
        for left in (self.path / RECORDS).rglob("*.tmp"):  # of a process that was killed while it wrote
            left.unlink()
        _end_the_last_line(self.path / ATTEMPTS)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time; the lock of a killed one is gone with it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / LOCK).open("w") as file:
            _lock(file.fileno(), self.path)
            yield

    def record_path(self, unit: Unit) -> Path:
        return self._of(unit.benchmark, unit.variant) / file_name(unit.task.id)

    def is_done(self, unit: Unit) -> bool:
        return self.record_path(unit).exists()

    def done(self, benchmark: str, variant: Variant) -> int:
        folder = self._of(benchmark, variant)
        return sum(entry.name.endswith(".json") for entry in os.scandir(folder)) if folder.is_dir() else 0

    def keep(self, unit: Unit, record: Record) -> None:
        write_record(self.record_path(unit), record)

    def note(self, unit: Unit, **what: Any) -> None:
        """One line about an attempt: how it ended, what went wrong, what it cost."""
        line = {"benchmark": unit.benchmark, "method": unit.variant.folder, "task": unit.task.id, **what}
        with (self.path / ATTEMPTS).open("ab", buffering=0) as file:
            file.write(f"{json.dumps(line, ensure_ascii=True)}\n".encode())

    def attempts(self) -> Iterator[dict[str, Any]]:
        """What was noted. A line that a kill cut short is left out."""
        path = self.path / ATTEMPTS
        if not path.exists():
            return
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    yield json.loads(line)
                except ValueError:
                    continue

    def spent(self) -> float:
        """USD, over all attempts there ever were."""
        return sum(attempt["cost"] or 0.0 for attempt in self.attempts())

    def _of(self, benchmark: str, variant: Variant) -> Path:
        return self.path / RECORDS / benchmark / variant.folder


def runs_below(path: Path) -> list[RunFolder]:
    """The folder itself if it is that of a run, or all such folders in it."""
    if not path.is_dir():
        raise BenchError(f"{path} is no folder")
    found = [RunFolder(job.parent) for job in sorted(path.rglob(JOB)) if RECORDS not in job.parts]
    if not found:
        raise BenchError(f"{path} holds no run of the bench: no {JOB} in it")
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(f"{path} cannot be read: {error}") from error
    if not isinstance(told, dict) or not {"job", "tasks"} <= told.keys():
        raise BenchError(f"{path} holds no settings of a run")
    return told


def _write(path: Path, told: Mapping[str, Any]) -> None:
    unfinished = path.with_name(f"{path.name}.tmp")
    unfinished.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    unfinished.replace(path)


def _end_the_last_line(path: Path) -> None:
    """A kill may have cut it short; the next line must not be lost with it."""
    with path.open("ab+") as file:
        if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n":
            file.write(b"\n")


def _lock(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: two runs in one folder are the user's to avoid
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise BenchError(f"another run is at work in {path}") from error
