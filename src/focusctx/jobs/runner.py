"""The runner, which does a job: every item that has no record yet, several at once, until it is done or has to stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar

from ..errors import ConfigError
from .engines import Engine, Meter, Outcome, Spending, Work

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


@dataclass(slots=True)
class Tally:
    """Items by part of the work: a benchmark, a file of recorded runs."""

    planned: dict[str, int] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    """Done in earlier sittings."""
    done: dict[str, int] = field(default_factory=dict)
    """Done in this sitting."""
    failed: dict[str, int] = field(default_factory=dict)
    spending: Spending = field(default_factory=Spending)
    began: float = field(default_factory=time.monotonic)
    stopped: str | None = None
    """Why the job stopped before all was done."""
    last_problem: str = ""

    @property
    def rate(self) -> float:
        """Items per second, in this sitting."""
        return sum(self.done.values()) / max(time.monotonic() - self.began, 1e-9)

    @property
    def left(self) -> int:
        """Items that still have no record."""
        return sum(self.planned.values()) - sum(self.before.values()) - sum(self.done.values())

    @property
    def failures(self) -> int:
        return sum(self.failed.values())

    def plan(self, part: str, *, is_done: bool) -> None:
        """Count one more item of a part."""
        for counts in (self.planned, self.before, self.done, self.failed):
            counts.setdefault(part, 0)
        self.planned[part] += 1
        self.before[part] += is_done


Watch: TypeAlias = Callable[[Tally], None]


class Note(Protocol[I, R]):  # type: ignore[misc]
    """Writes down an attempt, before its records are kept, so that no money is forgotten."""

    def __call__(self, item: I, outcome: Outcome[R] | None, seconds: float, cost: float | None) -> None:
        """`outcome` is None for an attempt that was interrupted."""


class Runner(Generic[I, R]):
    """Hands items to an engine and keeps what comes back."""

    def __init__(
        self,
        engine: Engine,
        work: Work[I, R],
        keep: Callable[[Sequence[R]], None],
        *,
        part: Callable[[I], str],
        is_done: Callable[[I], bool] = lambda _: False,
        tally: Tally | None = None,
        watch: Watch = lambda _: None,
        note: Note[I, R] | None = None,
        waits: Sequence[float] = (),
        patience: int | None = None,
    ) -> None:
        """`part` names the part of the work an item belongs to. `waits` are the seconds before each further attempt at
        an item that failed. With `patience`, the job stops after that many failed items in a row, plus the number
        of items under way at once: a key may be wrong."""
        self.tally = tally or Tally()
        self._engine = engine
        self._work = work
        self._keep = keep
        self._part = part
        self._is_done = is_done
        self._watch = watch
        self._note = note
        self._waits = waits
        self._patience = patience
        self._failed_in_a_row = 0

    def run_all(self, items: Iterable[I]) -> Tally:
        """Do all items, as `run` does, and close the engine."""
        try:
            return asyncio.run(self.run(items))
        finally:
            self._engine.close()

    async def run(self, items: Iterable[I]) -> Tally:
        """Do all items. Raises errors that a user has to fix. If it is cancelled, items under way are given up."""
        todo = []
        for item in items:
            done = self._is_done(item)
            self.tally.plan(self._part(item), is_done=done)
            if not done:
                todo.append(item)
        if not any(self.tally.done.values()):  # else this is a further part of the same job
            self.tally.began = time.monotonic()
        self._watch(self.tally)
        waiting = iter(todo)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._engine.concurrency, len(todo))):
                    group.create_task(self._take(waiting))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        return self.tally

    async def _take(self, waiting: Iterator[I]) -> None:
        """Do items one after the other; several of these tasks take them from the same iterator."""
        for item in waiting:
            if self._must_stop():
                return
            await self._do(item)
            self._watch(self.tally)

    def _must_stop(self) -> bool:
        spending = self.tally.spending
        if self.tally.stopped is None and spending.is_used_up:
            self.tally.stopped = f"the spending limit of ${spending.limit:,.2f} was reached"
        return self.tally.stopped is not None

    async def _do(self, item: I) -> None:
        part = self._part(item)
        for wait in (*self._waits, None):
            if await self._attempt(item):
                self.tally.done[part] += 1
                self._failed_in_a_row = 0
                return
            if wait is None or self._must_stop():
                break
            await asyncio.sleep(wait)
        self.tally.failed[part] += 1
        self._failed_in_a_row += 1
        if self._patience is not None and self._failed_in_a_row >= self._patience + self._engine.concurrency:
            self.tally.stopped = self.tally.stopped or f"{self._failed_in_a_row} tasks in a row failed"

    async def _attempt(self, item: I) -> bool:
        """Return True if the item has its records now."""
        meter = Meter(self.tally.spending)
        began = time.monotonic()
        outcome: Outcome[R] | None = None
        try:
            outcome = await self._engine.attempt(self._work, item, meter)
        finally:
            if self._note is not None and (outcome is not None or meter.cost != 0):
                self._note(item, outcome, time.monotonic() - began, meter.cost)
        if outcome.is_users:
            raise ConfigError(outcome.problem)
        if outcome.problem:
            self.tally.last_problem = f"{item}: {outcome.problem}"
            return False
        self._keep(outcome.records)
        return True
