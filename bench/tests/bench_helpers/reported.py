"""Folders of runs with records whose numbers are known, to make reports of."""

from collections.abc import Callable, Mapping
from pathlib import Path

from focusctx.types import Usage
from focusctx_bench.job import BenchFolder, Job, TaskItem
from focusctx_bench.protocols import Score, Task
from focusctx_bench.record import Event, Record, Step

EVENT = Event(True, 2.0, Usage(3, 3000, 100, 0.002), 6000, 3000)


def step(tokens: int, written: int = 100, event: Event | None = None) -> Step:
    usage = Usage(1, tokens + 500, written, 0.01)
    return Step(tokens, written, tokens, 1.5, usage, 0, 0.005, ((0, 1),), 1, event)


def record(job: Job, item: TaskItem, success: float, steps: tuple[Step, ...], details: Mapping[str, float]) -> Record:
    return Record(
        benchmark=item.benchmark,
        task=item.task.id,
        difficulty=item.task.difficulty,
        model=job.model or f"scripted:{item.benchmark}",
        method=item.variant.method,
        ended="done",
        problem=None,
        score=Score(success, details),
        seconds=10.0,
        started="2026-11-15T12:00:00+00:00",
        steps=steps,
        messages=({"role": "user", "content": "task"}, {"role": "assistant", "content": "done"}),
        variant=item.variant.name,
        settings=job.settings(item),
        repeat=item.repeat,
    )


Made = Callable[[TaskItem, int], tuple[float, tuple[Step, ...], dict[str, float]] | None]
"""From an item and the number of its task to success, steps and details; None for no record."""


def write_run(
    folder: Path, job: Job, made: Made, *, tasks: int = 4, classes: tuple[str, ...] = ("easy", "hard")
) -> None:
    some = {name: [Task(f"t{n}", classes[n % len(classes)]) for n in range(tasks)] for name in job.benchmarks}
    run = BenchFolder(folder)
    with run.locked():
        run.begin(job, some)
        for item in job.items(some):
            if (found := made(item, int(item.task.id[1:]))) is not None:
                run.records.add(record(job, item, *found))


def plain(item: TaskItem, number: int) -> tuple[float, tuple[Step, ...], dict[str, float]]:
    """Three of four succeed without a method, two with one. Peak 8,000 and 4,000, two steps and three."""
    if item.variant.method == "none":
        return float(number < 3), (step(4000), step(8000)), {}
    return float(number < 2), (step(3000), step(4000, event=EVENT), step(3500)), {}
