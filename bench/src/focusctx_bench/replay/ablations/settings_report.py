"""The ablations over recorded points as tables and a picture: what each setting keeps, and in how many tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from focusctx.replay.lines import Interval, bootstrap

from ...report.drawing import MARKERS, Figure, Theme
from ...report.table import Cell, Column, Number, Row, Table, cell_of
from .settings import Outcome
from .variants import GROUPS, Variant

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Found = Mapping[str, Mapping[str, Sequence[Outcome]]]
"""Outcomes by group and name of the variant."""

MEASURES = (
    "Recall: of the facts that later actions use and only past spans gave, the share still there; all: the share of "
    "events with all of them; tokens left: of the spans'. Newest and masking: the recall of the newest spans, and of "
    "masked observations, in as many tokens (masking keeps all thoughts and actions, and has more where those alone "
    "are more). Against: paired differences to the row that each table names, over the points that both have. In "
    "brackets: 95 % confidence, by bootstrap over runs."
)


def by_group(found: Mapping[Variant, Sequence[Outcome]]) -> Found:
    groups: dict[str, dict[str, Sequence[Outcome]]] = {}
    for variant, outcomes in found.items():
        if outcomes:
            groups.setdefault(variant.group, {})[variant.name] = outcomes
    return groups


def tables(found: Found) -> list[Table]:
    return [_table(group, rows) for group, rows in found.items() if len(rows) > 1]


def figures(found: Found) -> list[Figure]:
    return [_front(found)]


def _table(group: str, rows: Mapping[str, Sequence[Outcome]]) -> Table:
    base = GROUPS[group]
    columns = [
        Column("recall"), Column("all"), Column("tokens left"), Column("newest"), Column("masking"),
        Column("recall", group="against"), Column("tokens left", group="against"), Column("sketches"),
        Column("failed %", optional=True), Column("points"),
    ]  # fmt: skip
    made = [Row(name, _cells(outcomes, rows.get(base), name == base)) for name, outcomes in rows.items()]
    note = f"Against: “{base}”."
    return Table(_key(group), group, note, columns, made, stub="Setting").without_empty_columns()


def _cells(outcomes: Sequence[Outcome], base: Sequence[Outcome] | None, is_base: bool) -> list[Cell]:
    asked = [outcome for outcome in outcomes if outcome.needed]
    against: list[Cell] = [None, None]
    if base is not None and not is_base:
        against = [_difference(asked, base, _recall), _difference(outcomes, base, _left)]
    return [
        cell_of(_over_runs(asked, _recall), 3),
        Number(fmean(outcome.complete for outcome in asked)),
        cell_of(_over_runs(outcomes, _left), 3),
        Number(fmean(outcome.newest for outcome in asked)),
        Number(fmean(outcome.masking for outcome in asked)),
        *against,
        Number(fmean(outcome.sketches for outcome in outcomes), 1),
        Number(100 * fmean(outcome.failed for outcome in outcomes), 0),
        f"{len(outcomes)}",
    ]


def _recall(outcome: Outcome) -> float:
    return outcome.recall


def _left(outcome: Outcome) -> float:
    return outcome.left


def _over_runs(outcomes: Sequence[Outcome], value: Callable[[Outcome], float]) -> Interval:
    runs: dict[tuple[str, str], list[float]] = {}
    for outcome in outcomes:
        runs.setdefault(outcome.place[:2], []).append(value(outcome))
    return bootstrap([fmean(values) for values in runs.values()])


def _difference(outcomes: Sequence[Outcome], base: Sequence[Outcome], value: Callable[[Outcome], float]) -> Cell:
    at_base = {outcome.place: value(outcome) for outcome in base}
    runs: dict[tuple[str, str], list[float]] = {}
    for outcome in outcomes:
        if outcome.place in at_base:
            runs.setdefault(outcome.place[:2], []).append(value(outcome) - at_base[outcome.place])
    if not runs:
        return None
    return cell_of(bootstrap([fmean(values) for values in runs.values()]), 3, signed=True)


def _front(found: Found) -> Figure:
    """All settings on one picture, a path for each group, and the newest spans in as many tokens."""

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


def _key(group: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in group.lower()).strip("-") or "n"
