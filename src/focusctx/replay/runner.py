"""Run a replay: every unit that is not done yet, on an engine, into a file of records; then the comparators."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Literal, TypeAlias, TypeVar

from .answering import check_answering
from .compare import compare_points, compare_walks, to_compare
from .engines import Outcome, Report, Work, on_cores, on_ray, side_by_side
from .methods import Setup
from .record import Key, PointRecord, Records, RunRecord
from .runs import Run
from .sketches import Recorded
from .tally import Tally
from .work import Unit, methods_left, point_unit, walk_unit, without_what_is_walked

EngineName: TypeAlias = Literal["local", "ray"]
Watch: TypeAlias = Callable[[Tally], None]
R = TypeVar("R", RunRecord, PointRecord)

_ASK_NOBODY = (None, "offline")
"""Drafts that need no waiting: more cores make them faster, more concurrency does not."""


@dataclass(slots=True)
class ReplayTally(Tally):
    """Progress of a replay: units by file, and the events since this command started."""

    events: int = 0
    """Number of events, failed ones included …"""
    events_failed: int = 0
    why: str = ""
    """… the last failure's reason …"""
    unanswered: int = 0
    """… and the number at which a model gave no answer: the same plan asks it again."""

    def note(self, record: RunRecord | PointRecord) -> None:
        """Count a record's events. Rules ask no model, so theirs count only if they failed."""
        failures = record.failures if isinstance(record, RunRecord) else int(record.failure is not None)
        if not failures and ("@" in record.method or not record.draft):
            return
        self.events += failures + (record.events if isinstance(record, RunRecord) else int(record.event))
        self.events_failed += failures
        self.unanswered += record.unanswered
        self.why = record.failure or self.why


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs to replay, with all settings, and the engine and number of jobs."""

    setup: Setup
    runs: Sequence[Run]
    budgets: Mapping[str, int]
    """δ for each file."""
    recorded: Sequence[Recorded] = ()
    engine: EngineName = "local"
    jobs: int | None = None
    """Number of processes, or of concurrent units if a model is asked."""

    def units(self, done: Iterable[Key] = ()) -> list[Unit]:
        """Return a unit for every run, with its sketches and finished records."""
        known: defaultdict[Key, set[Key]] = defaultdict(set)
        for key in done:
            known[key[:2]].add(key)
        sketches: defaultdict[Key, list[Recorded]] = defaultdict(list)
        for one in self.recorded:
            sketches[one.file, one.id].append(one)
        return [
            Unit(
                run,
                self.budgets[run.file],
                self.setup.methods,
                recorded=tuple(sketches[run.file, run.id]),
                done=frozenset(known[run.file, run.id]),
            )
            for run in self.runs
        ]


def walk_all(plan: Plan, records: Records[RunRecord], watch: Watch) -> ReplayTally:
    """Walk every run under every method, except what the records hold already. Raises a `DraftError` if a model that is
    needed does not answer at the start."""
    units = [without_what_is_walked(plan.setup, unit) for unit in plan.units(records.done())]
    job = _Job(plan, records, watch)
    job.check(name for unit in units for name in unit.methods)
    job.replay(partial(walk_unit, plan.setup), units)
    job.compare(partial(compare_walks, plan.setup))
    return job.tally


def point_all(plan: Plan, records: Records[PointRecord], watch: Watch) -> ReplayTally:
    """Judge one event at each point of every run, or of those with recorded sketches. Raises like `walk_all`."""
    units = [unit for unit in plan.units(records.done()) if unit.recorded or not plan.recorded]
    job = _Job(plan, records, watch)
    if any(map(plan.setup.model_of, plan.setup.methods)):
        job.check(name for unit in units for name in methods_left(plan.setup, unit))
    job.replay(partial(point_unit, plan.setup), units)
    job.compare(partial(compare_points, plan.setup))
    return job.tally


class _Job(Generic[R]):
    """Turns units into records, and counts them in a tally."""

    def __init__(self, plan: Plan, records: Records[R], watch: Watch) -> None:
        self._plan = plan
        self._records: Records[R] = records
        self._watch = watch
        self.tally = ReplayTally()

    def check(self, methods: Iterable[str]) -> None:
        """Probe the models of these methods once, unless on a cluster, which may reach other servers."""
        if self._plan.engine == "local":
            models = filter(None, map(self._plan.setup.model_of, methods))
            asyncio.run(check_answering(dict.fromkeys(models)))

    def replay(self, work: Work[R], units: Sequence[Unit]) -> None:
        """Replay units under the methods that they name; those that name none are done."""
        todo = [unit for unit in units if unit.methods]
        report = self._begin("{}", units, todo)
        plan = self._plan
        if plan.engine == "ray":
            on_ray(work, todo, report)
        elif plan.setup.draft in _ASK_NOBODY and plan.setup.compressor is None:
            on_cores(work, todo, report, plan.jobs)
        else:
            side_by_side(work, todo, report, plan.jobs)

    def compare(self, work: Work[R]) -> None:
        """Run the comparators for everything FOCUS left in these runs, if they are wanted."""
        plan = self._plan
        known: defaultdict[Key, list[R]] = defaultdict(list)
        for record in self._records if plan.setup.matched else ():
            known[record.key[:2]].append(record)
        every = [(unit, known[unit.run.file, unit.run.id]) for unit in plan.units()]
        todo = [made for unit, own in every if (made := to_compare(plan.setup, unit, own)).rooms]
        report = self._begin("{}, matched", todo, todo)
        if plan.engine == "ray":
            on_ray(work, todo, report)
        else:
            on_cores(work, todo, report, plan.jobs if plan.setup.draft in _ASK_NOBODY else None)

    def _begin(self, name: str, units: Sequence[Unit], todo: Sequence[Unit]) -> Report[R]:
        """Add the units to the tally; return the function to call with each outcome."""
        tally = self.tally
        planned, left = (Counter(name.format(unit.run.file) for unit in some) for some in (units, todo))
        for part in planned:
            tally.planned[part], tally.before[part] = planned[part], planned[part] - left[part]
            tally.done[part] = tally.failed[part] = 0
        self._watch(tally)

        def report(outcome: Outcome[R]) -> None:
            part = name.format(outcome.unit.run.file)
            if outcome.problem is None:
                self._records.add(outcome.records)
                tally.done[part] += 1
                for record in outcome.records:
                    tally.note(record)
            else:
                tally.failed[part] += 1
                tally.last_problem = outcome.problem
            self._watch(tally)

        return report
