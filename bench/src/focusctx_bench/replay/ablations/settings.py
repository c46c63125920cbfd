"""One setting changed at a time: variants of FOCUS at every recorded point, as tables and a picture.

For each variant: what it keeps of what later actions use, with how many tokens and sketches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

from ...report.document import Cell, Column, Number, Row, Table, cell_of, slug
from ...report.drawing import Figure, Theme
from ..points import Judged, Place, Point
from ..sketches import PointSketches, by_run, points_recorded

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
    paper, shipped = FocusConfig.paper(), FocusConfig()
    kinds, on_top, off = list(GROUPS)[-3:]
    return [
        *(Variant("N", f"N = {count}", paper.with_changes(rollouts=count)) for count in ROLLOUTS),
        *(
            Variant(f"τ at N = {count}", f"τ = {tau:g}", paper.with_changes(threshold=tau, rollouts=count))
            for count in (3, 10)
            for tau in THRESHOLDS
        ),
        Variant(kinds, PAPER, paper),
        Variant(kinds, "FOCUS-O", paper.with_changes(defensive=False)),
        # Levels, targets and more sketches, each alone on top of the paper's algorithm.
        Variant(on_top, PAPER, paper),
        Variant(on_top, "levels, no target", paper.with_changes(levels=True)),
        *(Variant(on_top, f"whole steps, target {share:g}", paper, share) for share in TARGETS),
        Variant(on_top, "N = 10", paper.with_changes(rollouts=10)),
        Variant(off, SHIPPED, shipped, 0.5),
        Variant(off, "levels off", shipped.with_changes(levels=False), 0.5),
        Variant(off, "target None", shipped),
        *(Variant(off, f"target {share:g}", shipped, share) for share in TARGETS if share != 0.5),
    ]


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
    config, replies = variant.at(point), recorded.as_replies()
    size = config.rollouts
    firsts = range(0, min(len(replies) // size, _MOST_GROUPS) * size, size)
    focuses = [Focus(ScriptedDraft(replies[first : first + size]), config=config) for first in firsts]
    if not focuses:
        return None
    found = [await _once(focus, point, embed) for focus in focuses]
    means = {name: fmean(once[name] for once in found) for name in found[0]}
    return VariantOutcome(place=point.place, needed=len(point.needed), **means)


async def _once(focus: Focus, point: Point, embed: Embed) -> dict[str, float]:
    """Return the figures of a variant with one group of sketches."""
    result = await focus.acompress(point.history)
    ours = point.judge(result.messages)
    quotas = {point.history.newest: ours.left}
    newest, masking = [
        point.judge((await comparator(name, "focus", quotas, embed).compress(point.sent)).messages)
        for name in ("fifo", "masking")
    ]
    return {
        "recall": _recall(ours),
        "complete": ours.there == ours.needed,
        "left": ours.left / point.span_tokens,
        "sketches": len(result.sketches),
        "failed": result.failure is not None,
        "newest": _recall(newest),
        "newest_left": newest.left / point.span_tokens,
        "masking": _recall(masking),
        "masking_left": masking.left / point.span_tokens,
    }


def _recall(judged: Judged) -> float:
    return judged.there / judged.needed if judged.needed else 1.0


@dataclass(frozen=True, slots=True)
class RunItem:
    """One run with its recorded sketches."""

    run: Run
    recorded: tuple[PointSketches, ...]

    def __str__(self) -> str:
        return str(self.run)


async def judge_run(item: RunItem, _: Meter) -> list[tuple[int, VariantOutcome]]:
    """Judge all variants, by their numbers, at the recorded points of one run."""
    embed = embedder_from("words")
    sketches = {one.messages: one for one in item.recorded}
    return [
        (number, outcome)
        for point in points_recorded(Evidence(item.run), item.recorded)
        for number, variant in enumerate(variants())
        if (outcome := await judge(variant, point, sketches[point.messages], embed)) is not None
    ]


Found = Mapping[str, Mapping[str, Sequence[VariantOutcome]]]
"""Outcomes by group and name of the variant."""


def judge_variants(
    runs: Sequence[Run], recorded: Sequence[PointSketches], jobs: int | None, watch: Watch
) -> tuple[Found, Tally]:
    """Return the outcomes of the variants that have some, and how many runs could be judged."""
    sketches = by_run(recorded)
    items = [RunItem(run, tuple(sketches[run.file, run.id])) for run in runs if (run.file, run.id) in sketches]
    outcomes: list[tuple[int, VariantOutcome]] = []
    runner = Runner(on_cores(len(items), jobs), judge_run, outcomes.extend, part=lambda _: "runs", watch=watch)
    tally = runner.run_all(items)
    every = variants()
    found: dict[str, dict[str, list[VariantOutcome]]] = {}
    # Cores finish in any order; the report must not depend on it.
    for number, outcome in sorted(outcomes, key=lambda one: (one[0], one[1].place)):
        found.setdefault(every[number].group, {}).setdefault(every[number].name, []).append(outcome)
    return found, tally


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
    made = [Row(name, _cells(outcomes, rows.get(base, []) if name != base else [])) for name, outcomes in rows.items()]
    note = f"Against: “{base}”."
    return Table(slug(group), group, note, columns, made, stub="Setting").without_empty_columns()


def _cells(outcomes: Sequence[VariantOutcome], base: Sequence[VariantOutcome]) -> list[Cell]:
    asked = [outcome for outcome in outcomes if outcome.needed]
    return [
        cell_of(_over_runs((one.place, one.recall) for one in asked), 3),
        Number(fmean(outcome.complete for outcome in asked)),
        cell_of(_over_runs((one.place, one.left) for one in outcomes), 3),
        Number(fmean(outcome.newest for outcome in asked)),
        Number(fmean(outcome.masking for outcome in asked)),
        _difference(asked, base, "recall"),
        _difference(outcomes, base, "left"),
        Number(fmean(outcome.sketches for outcome in outcomes), 1),
        Number(100 * fmean(outcome.failed for outcome in outcomes), 0),
        f"{len(outcomes)}",
    ]


def _over_runs(figures: Iterable[tuple[Place, float]]) -> Interval:
    runs: dict[tuple[str, str], list[float]] = {}
    for place, figure in figures:
        runs.setdefault(place[:2], []).append(figure)
    return bootstrap([fmean(values) for values in runs.values()])


def _difference(outcomes: Sequence[VariantOutcome], base: Sequence[VariantOutcome], value: str) -> Cell:
    at_base = {outcome.place: getattr(outcome, value) for outcome in base}
    both = [(one.place, getattr(one, value) - at_base[one.place]) for one in outcomes if one.place in at_base]
    return cell_of(_over_runs(both), 3, signed=True) if both else None


def _front(found: Found) -> Figure:
    """Draw all settings, marked by group, and the newest spans and masking in as many tokens."""

    def draw(axes: Axes, theme: Theme) -> None:
        for number, (group, rows) in enumerate(found.items()):
            shown = {name: [one for one in outcomes if one.needed] for name, outcomes in rows.items()}
            x = [100 * fmean(one.left for one in outcomes) for outcomes in shown.values()]
            y = [100 * fmean(one.recall for one in outcomes) for outcomes in shown.values()]
            axes.scatter(x, y, **theme.look(number), s=34, label=group, zorder=3)
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
