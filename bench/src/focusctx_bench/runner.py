"""Does a job: every unit that is not done yet, several at once, until all are done or something says stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from focusctx.replay.tally import Spending, Tally

from .engines import Engine
from .folder import RunFolder
from .job import Job, Unit
from .seams import Task
from .spending import Meter

WAITS = (2.0, 20.0)
"""Seconds before a unit is tried again that failed for no fault of the agent or its method."""

PATIENCE = 10
"""After so many failed units in a row, and one more for each that runs beside, the run stops: a key may be wrong."""


class Runner:
    def __init__(
        self,
        job: Job,
        tasks: Mapping[str, Sequence[Task]],
        folder: RunFolder,
        engine: Engine,
        *,
        max_cost: float | None = None,
        waits: Sequence[float] = WAITS,
        watch: Callable[[Tally], None] = lambda _: None,
    ) -> None:
        self._job = job
        self._tasks = tasks
        self._folder = folder
        self._engine = engine
        self._waits = waits
        self._watch = watch
        self._failed_in_a_row = 0
        self.tally = Tally(spending=Spending(max_cost))

    async def run(self) -> Tally:
        """Raises what a user has to put right. When it is cancelled, what runs is given up and its cost noted."""
        with self._folder.locked():
            self._folder.open(self._job, self._tasks)
            await self._engine.check(unit for unit in self._job.units(self._tasks) if not self._folder.is_done(unit))
            self._count()
            units = self._job.units(self._tasks)
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(self._engine.concurrency):
                        group.create_task(self._work(units))
            except BaseExceptionGroup as several:
                raise several.exceptions[0] from None
        return self.tally

    def _count(self) -> None:
        tally = self.tally
        for name, tasks in self._tasks.items():
            variants = self._job.variants(name)
            tally.planned[name] = len(tasks) * len(variants)
            tally.before[name] = sum(self._folder.done(name, variant) for variant in variants)
            tally.done[name] = tally.failed[name] = 0
        tally.spending.total = self._folder.spent()
        tally.began = time.monotonic()
        self._watch(tally)

    async def _work(self, units: Iterator[Unit]) -> None:
        """One of several that take from the same units."""
        for unit in units:
            if self._folder.is_done(unit):
                continue
            if self._must_stop():
                return
            await self._do(unit)
            self._watch(self.tally)

    def _must_stop(self) -> bool:
        spending = self.tally.spending
        if self.tally.stopped is None and spending.is_used_up:
            self.tally.stopped = f"the spending limit of ${spending.limit:,.2f} is reached"
        return self.tally.stopped is not None

    async def _do(self, unit: Unit) -> None:
        for wait in (*self._waits, None):
            if await self._attempt(unit):
                self.tally.done[unit.benchmark] += 1
                self._failed_in_a_row = 0
                return
            if wait is None or self._must_stop():
                break
            await asyncio.sleep(wait)
        self.tally.failed[unit.benchmark] += 1
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= PATIENCE + self._engine.concurrency and self.tally.stopped is None:
            self.tally.stopped = f"{self._failed_in_a_row} tasks in a row failed"

    async def _attempt(self, unit: Unit) -> bool:
        """Whether there is a record now."""
        meter = Meter(self.tally.spending)
        began = time.monotonic()
        try:
            attempt = await self._engine.attempt(unit, meter)
        except BaseException:
            if meter.cost:
                self._note(unit, meter, began, ended="interrupted")
            raise
        if attempt.record is None:
            self.tally.last_problem = f"{unit}: {attempt.problem}"
            trace = {"trace": attempt.trace} if attempt.trace else {}
            self._note(unit, meter, began, ended="failed", problem=attempt.problem, **trace)
            return False
        self._note(unit, meter, began, ended=attempt.record.ended)
        await asyncio.to_thread(self._folder.keep, unit, attempt.record)
        return True

    def _note(self, unit: Unit, meter: Meter, began: float, **what: str) -> None:
        cost = None if meter.unpriced else meter.cost
        self._folder.note(unit, **what, seconds=round(time.monotonic() - began, 3), cost=cost)
