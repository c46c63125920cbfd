"""Small jobs over the office, an engine that does nothing, and what to compare of two runs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench_helpers.made import a_record
from focusctx.jobs.engines import Meter, Outcome
from focusctx.jobs.runner import Tally
from focusctx_bench.job import BenchFolder, Job, TaskItem
from focusctx_bench.protocols import Options, Task
from focusctx_bench.record import Record
from focusctx_bench.run import run_bench

METHODS = ("none", "fifo", "masking-5", "focus-d")


def office(tasks: int = 3, methods: Sequence[str] = METHODS, **more: Any) -> Job:
    return Job(benchmarks={"office": Options()}, methods=tuple(methods), count=tasks, **more)


def records_of(folder: Path) -> dict[Any, Any]:
    """All records by key, without what the clock says."""
    return {record.key: _timeless(record.to_json()) for record in BenchFolder(folder).records}


def _timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _timeless(part) for name, part in value.items() if name not in ("seconds", "started")}
    return json.loads(json.dumps([_timeless(part) for part in value])) if isinstance(value, list | tuple) else value


class Desk:
    """An engine that does nothing, for a price, and fails a given number of times for each task."""

    def __init__(
        self, price: float | None = 0.0, failures: Mapping[str, int] | None = None, concurrency: int = 1
    ) -> None:
        self.concurrency = concurrency
        self.price = price
        self.failures = dict(failures or {})
        self.asked: list[str] = []

    async def attempt(self, work: object, item: TaskItem, meter: Meter) -> Outcome[Record]:
        self.asked.append(item.task.id)
        meter.add(self.price, "a desk")
        if self.failures.get(item.task.id, 0) > 0:
            self.failures[item.task.id] -= 1
            return Outcome(problem="the roof fell in")
        return Outcome([a_record(item.task.id).made_by(item.variant.name, {})])

    def close(self) -> None:
        pass


async def run_desk(folder: Path, desk: Any, tasks: int, **options: Any) -> Tally:
    job = Job(benchmarks={"made": Options()}, methods=("none",))
    made = {"made": [Task(f"task {number:03d}") for number in range(tasks)]}
    return await run_bench(job, made, BenchFolder(folder), desk, **{"waits": (0.0, 0.0), **options})
