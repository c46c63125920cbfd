"""Every variant at every recorded point, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from focusctx.baselines.embedders import embedder_from
from focusctx.replay.engines import Outcome as Done
from focusctx.replay.engines import on_cores
from focusctx.replay.evidence import Evidence
from focusctx.replay.runs import Run
from focusctx.replay.sketches import Recorded, points_recorded
from focusctx.replay.work import Unit

from .outcomes import Outcome, judge
from .variants import variants

Judged = tuple[int, Outcome]
"""The number of the variant, and what it came to."""


async def judge_unit(unit: Unit) -> list[Judged]:
    """All variants at the recorded points of one run."""
    embed = embedder_from("words")
    found: list[Judged] = []
    for point in points_recorded(Evidence(unit.run), unit.recorded):
        recorded = next(one for one in unit.recorded if one.messages == point.messages)
        for number, variant in enumerate(variants()):
            outcome = await judge(variant, point, recorded, embed)
            if outcome is not None:
                found.append((number, outcome))
    return found


def judge_all(
    runs: Sequence[Run],
    recorded: Sequence[Recorded],
    jobs: int | None,
    watch: Callable[[int, int, str | None], None],
) -> dict[int, list[Outcome]]:
    """By the number of the variant. `watch` gets how many runs are done, of how many, and what went wrong."""
    by_run: dict[tuple[str, str], list[Recorded]] = {}
    for one in recorded:
        by_run.setdefault((one.file, one.id), []).append(one)
    units = [
        Unit(run, 0, (), tuple(by_run[run.file, run.id])) for run in runs if (run.file, run.id) in by_run
    ]  # fmt: skip
    found: dict[int, list[Outcome]] = {}
    done = 0

    def report(outcome: Done[Judged]) -> None:
        nonlocal done
        done += 1
        for number, judged in outcome.records:
            found.setdefault(number, []).append(judged)
        watch(done, len(units), outcome.problem)

    on_cores(judge_unit, units, report, jobs)
    # Cores finish in any order; the report must not depend on it.
    return {number: sorted(outcomes, key=lambda one: one.place) for number, outcomes in sorted(found.items())}
