"""Small jobs over the office, and what to compare of two runs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from focusctx_bench.folder import RunFolder
from focusctx_bench.job import Job, Unit
from focusctx_bench.runner import Runner
from focusctx_bench.seams import Options, Task
from focusctx_bench.spending import Meter
from focusctx_bench.workshop import Attempt
from made import a_record

METHODS = ("none", "fifo", "masking-5", "focus-d")


def office(tasks: int = 3, methods: Sequence[str] = METHODS, **more: Any) -> Job:
    return Job(benchmarks={"office": Options()}, methods=tuple(methods), count=tasks, **more)


def records_of(folder: Path) -> dict[str, Any]:
    """All records without what the clock says."""
    found = {}
    for path in sorted((folder / "records").rglob("*")):
        if path.is_file():
            found[str(path.relative_to(folder))] = _timeless(json.loads(path.read_text()))
    return found


def _timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _timeless(part) for name, part in value.items() if name not in ("seconds", "started")}
    return [_timeless(part) for part in value] if isinstance(value, list) else value


class Desk:
    """An engine that does nothing, for a price, and fails as often as it is told for each task."""

    def __init__(
        self, price: float | None = 0.0, failures: Mapping[str, int] | None = None, concurrency: int = 1
    ) -> None:
        self.concurrency = concurrency
        self.price = price
        self.failures = dict(failures or {})
        self.asked: list[str] = []

    async def check(self, units: Iterable[Unit]) -> None:
        pass

    async def attempt(self, unit: Unit, meter: Meter) -> Attempt:
        self.asked.append(unit.task.id)
        meter.add(self.price, "a desk")
        if self.failures.get(unit.task.id, 0) > 0:
            self.failures[unit.task.id] -= 1
            return Attempt(None, "the roof fell in")
        return Attempt(a_record(unit.task.id))

    def close(self) -> None:
        pass


def desk_job(tasks: int) -> tuple[Job, dict[str, list[Task]]]:
    job = Job(benchmarks={"made": Options()}, methods=("none",))
    return job, {"made": [Task(f"task {number:03d}") for number in range(tasks)]}


def desk_runner(folder: Path, desk: Desk, tasks: int, **options: Any) -> Runner:
    job, made = desk_job(tasks)
    return Runner(job, made, RunFolder(folder), desk, **{"waits": (0.0, 0.0), **options})
