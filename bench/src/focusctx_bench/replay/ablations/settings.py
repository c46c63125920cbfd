"""Judge every variant at every recorded point, on all cores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from focusctx.baselines.embedders import embedder_from
from focusctx.jobs.engines import on_cores
from focusctx.jobs.runner import Runner, Watch
from focusctx.jobs.tally import Meter, Tally
from focusctx.replay.evidence import Evidence
from focusctx.replay.runs import Run

from ..sketches import PointSketches, points_recorded
from .outcomes import Outcome, judge
from .variants import variants

Judged = tuple[int, Outcome]
"""The number of the variant, and its outcome at one point."""


@dataclass(frozen=True, slots=True)
class RunItem:
    """One run with its recorded sketches."""

    run: Run
    recorded: tuple[PointSketches, ...]

    def __str__(self) -> str:
        return str(self.run)


async def judge_run(item: RunItem, _: Meter) -> list[Judged]:
    """Judge all variants at the recorded points of one run."""
    embed = embedder_from("words")
    found: list[Judged] = []
    for point in points_recorded(Evidence(item.run), item.recorded):
        recorded = next(one for one in item.recorded if one.messages == point.messages)
        for number, variant in enumerate(variants()):
            outcome = await judge(variant, point, recorded, embed)
            if outcome is not None:
                found.append((number, outcome))
    return found


def judge_variants(
    runs: Sequence[Run], recorded: Sequence[PointSketches], jobs: int | None, watch: Watch
) -> tuple[dict[int, list[Outcome]], Tally]:
    """Return the outcomes by the number of the variant, and how many runs could be judged."""
    by_run: defaultdict[tuple[str, str], list[PointSketches]] = defaultdict(list)
    for one in recorded:
        by_run[one.file, one.id].append(one)
    items = [RunItem(run, tuple(by_run[run.file, run.id])) for run in runs if (run.file, run.id) in by_run]
    found: list[Judged] = []
    runner = Runner(on_cores(len(items), jobs), judge_run, found.extend, part=lambda _: "runs", watch=watch)
    tally = runner.run_all(items)
    outcomes: defaultdict[int, list[Outcome]] = defaultdict(list)
    # Cores finish in any order; the report must not depend on it.
    for number, outcome in sorted(found, key=lambda one: (one[0], one[1].place)):
        outcomes[number].append(outcome)
    return outcomes, tally
