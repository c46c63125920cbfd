"""A unit, the smallest piece of a replay: one run, or the points of one run, under all methods not yet done."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache

from ..baselines.method import Method
from ..prices import price_of
from .evidence import Evidence
from .methods import Setup, Workshop
from .oracle import ORACLE, Oracle
from .points import Point, points_of
from .record import Key, PointRecord, RunRecord, settings_text
from .runs import Run
from .sketches import Recorded, points_recorded
from .walk import Walked, Walker


@dataclass(frozen=True, slots=True)
class Room:
    """A record of FOCUS, and the comparators that have not yet run with the tokens it left."""

    record: RunRecord | PointRecord
    lacking: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """A run, and the methods under which to replay it."""

    run: Run
    budget: int
    methods: tuple[str, ...]
    recorded: tuple[Recorded, ...] = ()
    """Sketches of this run."""
    done: frozenset[Key] = frozenset()
    """Keys of its existing records …"""
    rooms: tuple[Room, ...] = ()
    """… and the records of FOCUS for which comparators are still missing."""


@lru_cache(maxsize=1)
def workshop_of(setup: Setup) -> Workshop:
    """Return the process's workshop: drafts and embedders are loaded once."""
    return Workshop(setup)


async def walk_unit(setup: Setup, unit: Unit) -> list[RunRecord]:
    """Walk the run under each method."""
    workshop = workshop_of(setup)
    walker = Walker(Evidence(unit.run), unit.budget, price_of(setup.model))
    records: list[RunRecord] = []
    for name in unit.methods:
        method = workshop.method(name, unit.run, unit.budget, unit.recorded)
        records.append(run_record(setup, unit, name, await walker.walk(method)))
        _close(method)
    return records


async def point_unit(setup: Setup, unit: Unit) -> list[PointRecord]:
    """Judge one event at each point of the run that is not done, under each method."""
    workshop = workshop_of(setup)
    records: list[PointRecord] = []
    for point in points_for(unit):
        for name in unit.methods:
            if _point_key(setup, point, name) in unit.done:
                continue
            method = Oracle(point) if name == ORACLE else workshop.method(name, unit.run, point.budget, unit.recorded)
            records.append(await point_record(setup, point, method, name))
            _close(method)
    return records


def points_for(unit: Unit) -> list[Point]:
    """Return the recorded points if sketches were recorded, the run's own otherwise."""
    evidence = Evidence(unit.run)
    return points_recorded(evidence, unit.recorded) if unit.recorded else points_of(evidence, unit.budget)


def without_what_is_walked(setup: Setup, unit: Unit) -> Unit:
    """Return the unit with only the methods that have no record of the run yet."""
    return replace(unit, methods=tuple(name for name in unit.methods if _walk_key(setup, unit, name) not in unit.done))


def methods_left(setup: Setup, unit: Unit) -> set[str]:
    """Return the methods for which some point of the run has no record yet."""
    points = points_for(unit)
    return {name for point in points for name in unit.methods if _point_key(setup, point, name) not in unit.done}


def _walk_key(setup: Setup, unit: Unit, name: str) -> Key:
    told = settings_text(setup.settings_of(name))
    return unit.run.file, unit.run.id, name, setup.draft_of(name), unit.budget, told


def _point_key(setup: Setup, point: Point, name: str) -> Key:
    told = settings_text(setup.settings_of(name))
    return point.file, point.run, point.messages, name, setup.draft_of(name), point.budget, told


async def point_record(setup: Setup, point: Point, method: Method, name: str) -> PointRecord:
    began = time.perf_counter()
    sent = await method.compress(point.sent)
    seconds = time.perf_counter() - began
    judged = point.judge(sent.messages)
    return PointRecord(
        file=point.file,
        run=point.run,
        messages=point.messages,
        method=name,
        draft=setup.draft_of(name),
        budget=point.budget,
        settings=setup.settings_of(name),
        event=len(sent.messages) < point.messages or judged.left < point.span_tokens,
        failure=sent.failure,
        unanswered=sent.unanswered and setup.can_ask_again(name),
        span_tokens=point.span_tokens,
        span_left=judged.left,
        history_tokens=point.history.tokens,
        sent_tokens=judged.seen.tokens,
        needed=judged.needed,
        there=judged.there,
        words_lost=judged.words_lost,
        usage=sent.usage,
        seconds=round(seconds, 3),
    )


def run_record(setup: Setup, unit: Unit, name: str, walked: Walked) -> RunRecord:
    return RunRecord(
        file=unit.run.file,
        run=unit.run.id,
        method=name,
        draft=setup.draft_of(name),
        budget=unit.budget,
        settings=setup.settings_of(name),
        steps=walked.steps,
        events=walked.events,
        failures=walked.failures,
        failure=walked.failure,
        unanswered=walked.unanswered if setup.can_ask_again(name) else 0,
        words_lost=walked.words_lost,
        peak=walked.peak,
        dependency=walked.dependency,
        cost=walked.cost,
        cost_cached=walked.cost_cached,
        usage=walked.usage,
        seconds=walked.seconds,
    )


def _close(method: Method) -> None:
    close = getattr(method, "close", None)
    if close is not None:
        close()
