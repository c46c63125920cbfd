"""One variant at every recorded point: what it keeps of what later actions use, with how many tokens and sketches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from focusctx.baselines.embedders import Embed, embedder_from
from focusctx.compressor import Focus
from focusctx.drafts.scripted import ScriptedDraft
from focusctx.jobs.engines import Meter, on_cores
from focusctx.jobs.runner import Runner, Tally, Watch
from focusctx.replay.comparators import comparator
from focusctx.replay.facts import Evidence
from focusctx.replay.runs import Run
from focusctx.types import Reply

from ..points import Judged, Place, Point
from ..sketches import PointSketches, points_recorded
from .variants import Variant, variants

_GROUPS = 4
"""Groups of sketches that one variant is judged with at a point, at most."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One variant at one point, means over groups of sketches."""

    place: Place
    needed: int
    recall: float
    """1 where nothing was needed; such points count for tokens, not for recall."""
    complete: float
    """1 if all of it is there."""
    left: float
    """Share of the spans' tokens."""
    sketches: float
    """Sketches that were read."""
    failed: float
    newest: float
    """The recall of the newest spans with as many tokens …"""
    newest_left: float
    """… and their share of tokens, the same but for a span, more or less."""
    masking: float
    """Recall of masked observations, which keep all thoughts and actions whatever those take."""
    masking_left: float


async def judge(variant: Variant, point: Point, recorded: PointSketches, embed: Embed) -> Outcome | None:
    """None where fewer sketches were recorded than the variant samples."""
    config = variant.at(point)
    groups = list(_groups(recorded.as_replies(), config.rollouts))
    if not groups:
        return None
    found = [await _once(Focus(ScriptedDraft(replies), config=config), point, embed) for replies in groups]
    return Outcome(
        place=point.place,
        needed=len(point.needed),
        recall=fmean(_recall(once.ours) for once in found),
        complete=fmean(once.ours.there == once.ours.needed for once in found),
        left=fmean(once.ours.left / point.span_tokens for once in found),
        sketches=fmean(once.sketches for once in found),
        failed=fmean(once.failed for once in found),
        newest=fmean(_recall(once.newest) for once in found),
        newest_left=fmean(once.newest.left / point.span_tokens for once in found),
        masking=fmean(_recall(once.masking) for once in found),
        masking_left=fmean(once.masking.left / point.span_tokens for once in found),
    )


@dataclass(frozen=True, slots=True)
class _Once:
    """One variant with one group of sketches."""

    ours: Judged
    newest: Judged
    masking: Judged
    sketches: int
    failed: bool


async def _once(focus: Focus, point: Point, embed: Embed) -> _Once:
    result = await focus.acompress(point.history)
    ours = point.judge(result.messages)
    quotas = {point.history.newest: ours.left}
    newest, masking = [
        point.judge((await comparator(name, "focus", quotas, embed).compress(point.sent)).messages)
        for name in ("fifo", "masking")
    ]
    return _Once(ours, newest, masking, len(result.sketches), result.failure is not None)


def _groups(replies: Sequence[Reply], size: int) -> Iterator[Sequence[Reply]]:
    for first in range(0, min(len(replies) // size, _GROUPS) * size, size):
        yield replies[first : first + size]


def _recall(judged: Judged) -> float:
    return judged.there / judged.needed if judged.needed else 1.0


NumberedOutcome = tuple[int, Outcome]
"""The number of the variant, and its outcome at one point."""


@dataclass(frozen=True, slots=True)
class RunItem:
    """One run with its recorded sketches."""

    run: Run
    recorded: tuple[PointSketches, ...]

    def __str__(self) -> str:
        return str(self.run)


async def judge_run(item: RunItem, _: Meter) -> list[NumberedOutcome]:
    """Judge all variants at the recorded points of one run."""
    embed = embedder_from("words")
    found: list[NumberedOutcome] = []
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
    found: list[NumberedOutcome] = []
    runner = Runner(on_cores(len(items), jobs), judge_run, found.extend, part=lambda _: "runs", watch=watch)
    tally = runner.run_all(items)
    outcomes: defaultdict[int, list[Outcome]] = defaultdict(list)
    # Cores finish in any order; the report must not depend on it.
    for number, outcome in sorted(found, key=lambda one: (one[0], one[1].place)):
        outcomes[number].append(outcome)
    return outcomes, tally
