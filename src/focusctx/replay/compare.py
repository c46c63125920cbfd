"""Run the comparators after FOCUS: its records say how many tokens it left at each step or point.

They need no model, so they are spread over the cores, whichever draft FOCUS used.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any, TypeVar

from ..prices import price_of
from .evidence import Evidence
from .matched import COMPARATORS, comparator
from .methods import FOCUS, Setup
from .points import point_at
from .record import Key, PointRecord, RunRecord
from .walk import Walker
from .work import Room, Unit, point_record, run_record, workshop_of

R = TypeVar("R", RunRecord, PointRecord)


def to_compare(setup: Setup, unit: Unit, records: Sequence[R]) -> Unit:
    """Add the tokens that FOCUS left in this run to the unit, for comparators that have not run with them yet.

    `records` are all records of the run. Comparators read chat only, and wait if the draft is to be asked again.
    """
    if unit.run.format != "chat_completions":
        return unit
    done = {record.key for record in records if not record.unanswered}
    left = [record for record in records if record.method in FOCUS and not record.unanswered]
    rooms = [_room(setup, record, done) for record in left]
    return replace(unit, rooms=tuple(room for room in rooms if room.lacking))


async def compare_walks(setup: Setup, unit: Unit) -> list[RunRecord]:
    evidence = Evidence(unit.run)
    found = []
    for room in unit.rooms:
        focus = room.record
        assert isinstance(focus, RunRecord)
        walker = Walker(evidence, focus.budget, price_of(setup.model))
        rooms = {step.step - 1: step.span_left for step in focus.due}
        for name in room.lacking:
            method = comparator(name, focus.method, rooms, workshop_of(setup).embed)
            record = run_record(setup, unit, method.name, await walker.walk(method))
            found.append(replace(record, **_told(setup, name, focus), floored=len(method.floored)))
    return found


async def compare_points(setup: Setup, unit: Unit) -> list[PointRecord]:
    evidence = Evidence(unit.run)
    found = []
    for room in unit.rooms:
        focus = room.record
        assert isinstance(focus, PointRecord)
        point = point_at(evidence, focus.messages, focus.budget)
        rooms = {point.history.newest: focus.span_left}
        for name in room.lacking:
            method = comparator(name, focus.method, rooms, workshop_of(setup).embed)
            record = await point_record(setup, point, method, method.name)
            found.append(replace(record, **_told(setup, name, focus), floored=bool(method.floored)))
    return found


def _room(setup: Setup, focus: RunRecord | PointRecord, done: Set[Key]) -> Room:
    lacking = [name for name in COMPARATORS if replace(focus, **_told(setup, name, focus)).key not in done]
    return Room(focus, tuple(lacking))


def _told(setup: Setup, name: str, focus: RunRecord | PointRecord) -> dict[str, Any]:
    """Return the fields that a comparator's record takes from the record of FOCUS: its key, except for the method."""
    own = {"embedder": setup.embedder} if name == "retrieval" else {}
    return {
        "method": f"{name}@{focus.method}",
        "draft": focus.draft,
        "budget": focus.budget,
        "settings": {**own, **focus.settings},
    }
