"""One setting changed at a time: variants of FOCUS at every recorded point, as tables and a picture.

For each variant: what it keeps of what later actions use, with how many tokens and sketches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from focusctx.baselines.embedders import Embed, embedder_from
from focusctx.compressor import Focus
from focusctx.config import FocusConfig
from focusctx.drafts.scripted import ScriptedDraft
from focusctx.jobs.engines import Meter, on_cores
from focusctx.jobs.runner import Runner, Tally, Watch
from focusctx.replay.comparators import comparator
from focusctx.replay.facts import Evidence
from focusctx.replay.lines import Interval, bootstrap
from focusctx.replay.runs import Run
from focusctx.types import Reply

from ...report.document import Cell, Column, Number, Row, Table, cell_of, slug
from ...report.drawing import MARKERS, Figure, Theme
from ..points import Judged, Place, Point
from ..sketches import PointSketches, points_recorded

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROLLOUTS = (1, 3, 5, 10)
THRESHOLDS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
TARGETS = (0.3, 0.5, 0.7)
PAPER = "FOCUS-D"
SHIPPED = "default: levels, target 0.5"
GROUPS = {
    "N": "N = 3",
    "τ at N = 3": "τ = 0.3",
    "τ at N = 10": "τ = 0.3",
    "FOCUS-O against FOCUS-D": PAPER,
    "Levels and targets on top of the paper": PAPER,
    "Levels and targets off the default": SHIPPED,
}
"""Groups of variants, and the row that the others of a group are compared with."""
MEASURES = (
    "Recall: of the facts that later actions use and only past spans gave, the share still there; all: the share of "
    "events with all of them; tokens left: of the spans'. Newest and masking: the recall of the newest spans, and of "
    "masked observations, in as many tokens (masking keeps all thoughts and actions, and has more where those alone "
    "are more). Against: paired differences to the row that each table names, over the points that both have. In "
    "brackets: 95 % confidence, by bootstrap over runs."
)
_MOST_GROUPS = 4
"""The most groups of sketches that one variant is judged with at a point."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to set things."""

    group: str
    name: str
    config: FocusConfig
    share: float | None = None
    """The target, as a share of the spans' tokens: task and user's words differ in size and stay anyway."""

    def at(self, point: Point) -> FocusConfig:
        """Return the settings at a point: its history has just passed the budget."""
        # No failure may silence the draft for the next point.
        config = self.config.with_changes(budget=point.history.tokens - 1, breaker_pause=0.0, target=None)
        return config if self.share is None else config.with_changes(target=point.target(self.share))


def variants() -> list[Variant]:
    """Return all variants, group by group."""
    paper = FocusConfig.paper()
    return [
        *_rollouts(paper),
        *(Variant("τ at N = 3", _tau(tau), paper.with_changes(threshold=tau)) for tau in THRESHOLDS),
        *(Variant("τ at N = 10", _tau(tau), paper.with_changes(threshold=tau, rollouts=10)) for tau in THRESHOLDS),
        Variant("FOCUS-O against FOCUS-D", PAPER, paper),
        Variant("FOCUS-O against FOCUS-D", "FOCUS-O", paper.with_changes(defensive=False)),
        *_on_top(paper),
        *_off(FocusConfig()),
    ]


def _rollouts(paper: FocusConfig) -> list[Variant]:
    return [Variant("N", f"N = {count}", paper.with_changes(rollouts=count)) for count in ROLLOUTS]


def _on_top(paper: FocusConfig) -> list[Variant]:
    """Vary levels, targets and more sketches, each alone on top of the paper's algorithm."""
    group = "Levels and targets on top of the paper"
    return [
        Variant(group, PAPER, paper),
        Variant(group, "levels, no target", paper.with_changes(levels=True)),
        *(Variant(group, f"whole steps, target {share:g}", paper, share) for share in TARGETS),
        Variant(group, "N = 10", paper.with_changes(rollouts=10)),
    ]


def _off(shipped: FocusConfig) -> list[Variant]:
    """Vary the shipped default: without levels, without a target, with other targets."""
    group = "Levels and targets off the default"
    return [
        Variant(group, SHIPPED, shipped, 0.5),
        Variant(group, "levels off", shipped.with_changes(levels=False), 0.5),
        Variant(group, "target None", shipped),
        *(Variant(group, f"target {share:g}", shipped, share) for share in TARGETS if share != 0.5),
    ]


def _tau(tau: float) -> str:
    return f"τ = {tau:g}"


@dataclass(frozen=True, slots=True)
class VariantOutcome:
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


async def judge(variant: Variant, point: Point, recorded: PointSketches, embed: Embed) -> VariantOutcome | None:
    """Judge a variant at a point; None where fewer sketches were recorded than the variant samples."""
    config = variant.at(point)
    groups = list(_groups(recorded.as_replies(), config.rollouts))
    if not groups:
        return None
    found = [await _once(Focus(ScriptedDraft(replies), config=config), point, embed) for replies in groups]
    return VariantOutcome(
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
    for first in range(0, min(len(replies) // size, _MOST_GROUPS) * size, size):
        yield replies[first : first + size]


def _recall(judged: Judged) -> float:
    return judged.there / judged.needed if judged.needed else 1.0


NumberedOutcome = tuple[int, VariantOutcome]
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
) -> tuple[dict[int, list[VariantOutcome]], Tally]:
    """Return the outcomes by the number of the variant, and how many runs could be judged."""
    by_run: defaultdict[tuple[str, str], list[PointSketches]] = defaultdict(list)
    for one in recorded:
        by_run[one.file, one.id].append(one)
    items = [RunItem(run, tuple(by_run[run.file, run.id])) for run in runs if (run.file, run.id) in by_run]
    found: list[NumberedOutcome] = []
    runner = Runner(on_cores(len(items), jobs), judge_run, found.extend, part=lambda _: "runs", watch=watch)
    tally = runner.run_all(items)
    outcomes: defaultdict[int, list[VariantOutcome]] = defaultdict(list)
    # Cores finish in any order; the report must not depend on it.
    for number, outcome in sorted(found, key=lambda one: (one[0], one[1].place)):
        outcomes[number].append(outcome)
    return outcomes, tally


Found = Mapping[str, Mapping[str, Sequence[VariantOutcome]]]
"""Outcomes by group and name of the variant."""


def by_group(found: Mapping[Variant, Sequence[VariantOutcome]]) -> Found:
    groups: dict[str, dict[str, Sequence[VariantOutcome]]] = {}
    for variant, outcomes in found.items():
        if outcomes:
            groups.setdefault(variant.group, {})[variant.name] = outcomes
    return groups


def tables(found: Found) -> list[Table]:
    return [_table(group, rows) for group, rows in found.items() if len(rows) > 1]


def figures(found: Found) -> list[Figure]:
    return [_front(found)]


def _table(group: str, rows: Mapping[str, Sequence[VariantOutcome]]) -> Table:
    base = GROUPS[group]
    columns = [
        Column("recall"), Column("all"), Column("tokens left"), Column("newest"), Column("masking"),
        Column("recall", group="against"), Column("tokens left", group="against"), Column("sketches"),
        Column("failed %", optional=True), Column("points"),
    ]  # fmt: skip
    made = [Row(name, _cells(outcomes, rows.get(base), name == base)) for name, outcomes in rows.items()]
    note = f"Against: “{base}”."
    return Table(slug(group), group, note, columns, made, stub="Setting").without_empty_columns()


def _cells(outcomes: Sequence[VariantOutcome], base: Sequence[VariantOutcome] | None, is_base: bool) -> list[Cell]:
    asked = [outcome for outcome in outcomes if outcome.needed]
    against: list[Cell] = [None, None]
    if base is not None and not is_base:
        against = [_difference(asked, base, "recall"), _difference(outcomes, base, "left")]
    return [
        cell_of(_over_runs(asked, "recall"), 3),
        Number(fmean(outcome.complete for outcome in asked)),
        cell_of(_over_runs(outcomes, "left"), 3),
        Number(fmean(outcome.newest for outcome in asked)),
        Number(fmean(outcome.masking for outcome in asked)),
        *against,
        Number(fmean(outcome.sketches for outcome in outcomes), 1),
        Number(100 * fmean(outcome.failed for outcome in outcomes), 0),
        f"{len(outcomes)}",
    ]


def _over_runs(outcomes: Sequence[VariantOutcome], value: str) -> Interval:
    runs: dict[tuple[str, str], list[float]] = {}
    for outcome in outcomes:
        runs.setdefault(outcome.place[:2], []).append(getattr(outcome, value))
    return bootstrap([fmean(values) for values in runs.values()])


def _difference(outcomes: Sequence[VariantOutcome], base: Sequence[VariantOutcome], value: str) -> Cell:
    at_base = {outcome.place: getattr(outcome, value) for outcome in base}
    runs: dict[tuple[str, str], list[float]] = {}
    for outcome in outcomes:
        if outcome.place in at_base:
            runs.setdefault(outcome.place[:2], []).append(getattr(outcome, value) - at_base[outcome.place])
    if not runs:
        return None
    return cell_of(bootstrap([fmean(values) for values in runs.values()]), 3, signed=True)


def _front(found: Found) -> Figure:
    """Draw all settings, marked by group, and the newest spans and masking in as many tokens."""

    def draw(axes: Axes, theme: Theme) -> None:
        for number, (group, rows) in enumerate(found.items()):
            shown = {name: [one for one in outcomes if one.needed] for name, outcomes in rows.items()}
            x = [100 * fmean(one.left for one in outcomes) for outcomes in shown.values()]
            y = [100 * fmean(one.recall for one in outcomes) for outcomes in shown.values()]
            axes.scatter(x, y, color=theme.colours[number], marker=MARKERS[number], s=34, label=group, zorder=3)
        every = [outcomes for rows in found.values() for outcomes in rows.values()]
        for name, marker in (("newest", "x"), ("masking", "+")):
            points = sorted(
                (
                    100 * fmean(getattr(one, f"{name}_left") for one in some),
                    100 * fmean(getattr(one, name) for one in some if one.needed),
                )
                for some in every
            )
            axes.plot(
                *zip(*points, strict=True), color=theme.soft, marker=marker, linewidth=0.8, markersize=5,
                label=f"{name}, as many or more",
            )  # fmt: skip
        axes.set_xlabel("tokens left (% of the spans')")
        axes.set_ylabel("recall (%)")
        axes.legend(fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5))

    note = "Every setting of every group. Further left is cheaper, further up is better."
    return Figure("front", "What the settings keep, and in how many tokens", note, draw)
