"""Judge one event at each point of recorded runs, under methods and their comparators, as a job, and its records."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from focusctx.baselines.method import Method
from focusctx.jobs.engines import Meter
from focusctx.jobs.records import Key, PlainRecord, RecordFile
from focusctx.jobs.runner import Watch
from focusctx.replay.comparators import comparator
from focusctx.replay.facts import Evidence
from focusctx.replay.job import CompareItem, Plan, Replay, ReplayTally, matched_fields
from focusctx.replay.methods import FOCUS, Methods, ReplaySettings, close_method
from focusctx.replay.record import settings_text, share_of
from focusctx.replay.runs import Run
from focusctx.types import Usage

from .points import ORACLE, Oracle, Point, point_at, points_of
from .sketches import PointSketches, RecordedDraft, by_run, points_recorded

POINTS = "points.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRecord(PlainRecord):
    file: str
    run: str
    messages: int
    """Number of leading messages of the run that were the history."""
    method: str
    draft: str
    budget: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    event: bool
    failure: str | None = None
    unanswered: bool = False
    """True if it failed because a model gave no answer: the point is to be judged again."""
    span_tokens: int
    span_left: int
    history_tokens: int
    sent_tokens: int
    needed: int
    """Distinct facts that later actions use and that only past spans gave."""
    there: int
    words_lost: int
    floored: bool = False
    usage: Usage
    seconds: float

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> PointRecord:
        return cls(usage=Usage(**data.pop("usage")), **data)

    @property
    def place(self) -> tuple[str, ...]:
        return self.file, self.run, str(self.messages)

    @property
    def key(self) -> Key:
        return self.file, self.run, self.messages, self.method, self.draft, self.budget, settings_text(self.settings)

    @property
    def events(self) -> int:
        return int(self.event)

    @property
    def failures(self) -> int:
        return int(self.failure is not None)

    @property
    def recall(self) -> float | None:
        """None where no later action needs anything."""
        return share_of([(self.there, self.needed)])

    @property
    def whole(self) -> bool | None:
        """True if everything is there that later actions need."""
        return self.there == self.needed if self.needed else None

    @property
    def span_share(self) -> float | None:
        return share_of([(self.span_left, self.span_tokens)])

    @property
    def history_share(self) -> float | None:
        return share_of([(self.sent_tokens, self.history_tokens)])

    @property
    def floored_share(self) -> float:
        return float(self.floored)


def point_records(folder: Path) -> RecordFile[PointRecord]:
    return RecordFile(folder / POINTS, PointRecord.from_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSettings(ReplaySettings):
    recorded: str | None = None
    """The model that made the recorded sketches. They are played where there are some; elsewhere the draft is asked,
    and without a draft such an event fails."""

    def draft_of(self, method: str) -> str:
        own = ReplaySettings.draft_of(self, method)
        matched = method.partition("@")[2] or method
        return " + ".join(filter(None, (self.recorded, own))) if matched in FOCUS else ""


@dataclass(frozen=True, slots=True)
class PointItem:
    """One run, the methods to judge its points under, its recorded sketches, and the records that are there."""

    run: Run
    budget: int
    methods: tuple[str, ...]
    recorded: tuple[PointSketches, ...] = ()
    done: frozenset[Key] = frozenset()

    def __str__(self) -> str:
        return str(self.run)

    def points(self) -> list[Point]:
        """Return the recorded points, where sketches were recorded; the run's own otherwise."""
        evidence = Evidence(self.run)
        return points_recorded(evidence, self.recorded) if self.recorded else points_of(evidence, self.budget)

    def lacking(self, settings: ReplaySettings, point: Point) -> list[str]:
        """Return the methods that have no record of the point yet."""
        return [name for name in self.methods if (*point.place, *settings.key_of(name, point.budget)) not in self.done]


@lru_cache(maxsize=1)
def methods_of(settings: ReplaySettings) -> Methods:
    """Return the one of this process."""
    return Methods(settings)


def make_method(methods: Methods, name: str, point: Point, recorded: Sequence[PointSketches]) -> Method:
    """Return a method for a point, which plays recorded sketches where there are some."""
    if name == ORACLE:
        return Oracle(point)
    sketcher = None
    if recorded or methods.settings.draft is None:
        otherwise = None if methods.settings.draft is None else methods.draft()
        sketcher = RecordedDraft(point.evidence.run, recorded, otherwise)
    return methods.make(name, point.evidence.run, point.budget, sketcher)


def judge_all(
    plan: Plan, records: RecordFile[PointRecord], watch: Watch, recorded: Sequence[PointSketches] = ()
) -> ReplayTally:
    """Judge all points; with recorded sketches, those of the runs that have some.

    Raises a `DraftError` where a model that is to be asked gives no answer to begin with.
    """
    replay = Replay(plan, records, watch)
    done, settings, sketches = replay.done(), plan.settings, by_run(recorded)
    items = []
    for run in plan.runs:
        place = run.file, run.id
        if place in sketches or not recorded:
            own = tuple(sketches.get(place, ()))
            items.append(PointItem(run, plan.budgets[run.file], settings.methods, own, frozenset(done[place])))
    if any(map(settings.model_of, settings.methods)):
        replay.probe(name for item in items for point in item.points() for name in item.lacking(settings, point))
    replay.run(partial(judge_item, settings), items)
    replay.compare(partial(compare_points, settings))
    return replay.tally


async def judge_item(settings: ReplaySettings, item: PointItem, _: Meter) -> list[PointRecord]:
    """Judge the points of one run that have no record yet."""
    records = []
    for point in item.points():
        for name in item.lacking(settings, point):
            method = make_method(methods_of(settings), name, point, item.recorded)
            own = {"draft": settings.draft_of(name), "settings": settings.settings_of(name)}
            record = await _judge(point, method, own)
            records.append(replace(record, unanswered=record.unanswered and settings.can_ask_again(name)))
            close_method(method)
    return records


async def compare_points(settings: ReplaySettings, item: CompareItem[PointRecord], _: Meter) -> list[PointRecord]:
    """Judge comparators at the points of one run, each with as many tokens as FOCUS left there."""
    evidence = Evidence(item.run)
    found = []
    for match in item.matches:
        focus = match.focus
        point = point_at(evidence, focus.messages, focus.budget)
        quotas = {point.history.newest: focus.span_left}
        for name in match.names:
            method = comparator(name, focus.method, quotas, methods_of(settings).embed)
            record = await _judge(point, method, matched_fields(settings, focus, name))
            found.append(replace(record, floored=bool(method.floored)))
    return found


async def _judge(point: Point, method: Method, about: Mapping[str, Any]) -> PointRecord:
    """Judge a method at a point; `about` are the fields of the record that say how it was set."""
    began = time.perf_counter()
    sent = await method.compress(point.sent)
    seconds = time.perf_counter() - began
    judged = point.judge(sent.messages)
    return PointRecord(
        file=point.file,
        run=point.run,
        messages=point.messages,
        **{"method": method.name, "budget": point.budget, **about},
        event=len(sent.messages) < point.messages or judged.left < point.span_tokens,
        failure=sent.failure,
        unanswered=sent.unanswered,
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
