"""Walk through every run under every method, then under the comparators that get as many tokens as FOCUS left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial

from ..jobs.records import RecordFile
from ..jobs.runner import Watch
from ..jobs.tally import Meter
from ..prices import price_of
from .evidence import Evidence
from .job import CompareItem, Plan, Replay, ReplayTally, matched_fields
from .matched import comparator
from .methods import Methods, ReplaySettings, close_method
from .record import RunRecord
from .runs import Run
from .walk import Walker


@dataclass(frozen=True, slots=True)
class WalkItem:
    """One run, and the methods under which it is still to be walked."""

    run: Run
    budget: int
    methods: tuple[str, ...]

    def __str__(self) -> str:
        return str(self.run)


@lru_cache(maxsize=1)
def _methods(settings: ReplaySettings) -> Methods:
    """Return the one of this process."""
    return Methods(settings)


def walk_all(plan: Plan, records: RecordFile[RunRecord], watch: Watch) -> ReplayTally:
    """Walk through all runs; what the records hold already is not done again.

    Raises a `DraftError` where a model that is to be asked gives no answer to begin with.
    """
    replay = Replay(plan, records, watch)
    done = replay.done()
    settings = plan.settings
    items = []
    for run in plan.runs:
        place, budget = (run.file, run.id), plan.budgets[run.file]
        keys = {name: (*place, *settings.key_of(name, budget)) for name in settings.methods}
        methods = tuple(name for name, key in keys.items() if key not in done[place])
        items.append(WalkItem(run, budget, methods))
    replay.probe(name for item in items for name in item.methods)
    replay.run(partial(walk_item, settings), items, is_done=lambda item: not item.methods)
    replay.compare(partial(compare_walks, settings))
    return replay.tally


async def walk_item(settings: ReplaySettings, item: WalkItem, _: Meter) -> list[RunRecord]:
    """Walk through one run under each method."""
    walker = Walker(Evidence(item.run), item.budget, price_of(settings.model))
    records = []
    for name in item.methods:
        method = _methods(settings).make(name, item.run, item.budget)
        record = await walker.walk(method, settings.draft_of(name), settings.settings_of(name))
        records.append(record if settings.can_ask_again(name) else replace(record, unanswered=0))
        close_method(method)
    return records


async def compare_walks(settings: ReplaySettings, item: CompareItem[RunRecord], _: Meter) -> list[RunRecord]:
    """Walk through one run under comparators, each with as many tokens at every step as FOCUS left there."""
    evidence = Evidence(item.run)
    found = []
    for match in item.matches:
        focus = match.focus
        walker = Walker(evidence, focus.budget, price_of(settings.model))
        quotas = {step.step - 1: step.span_left for step in focus.due}
        for name in match.names:
            method = comparator(name, focus.method, quotas, _methods(settings).embed)
            record = await walker.walk(method)
            fields = matched_fields(settings, focus, name)
            found.append(replace(record, **fields, floored=len(method.floored)))
    return found
