"""Agreement of a model's next actions, from its answers, as tables and a picture; intervals by bootstrap over runs.

A run's points count together: its figure is their mean, and every figure here is a mean over runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from focusctx.replay.lines import Interval, bootstrap, method_name, order_of
from focusctx.replay.methods import FOCUS

from ...report.document import Cell, Column, Number, Row, Table, cell_of
from ...report.drawing import Figure, Theme, bars
from ..points import Place
from .answers import AGAIN, FULL, RECORDED, Action, Agreement, Answer, action_of, agreement

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEASURES = Agreement._fields


@dataclass(frozen=True, slots=True)
class Agreed:
    """One method at the points where it, the full history and the recorded agent have all acted."""

    method: str
    draft: str
    points: int
    span_share: float
    """Tokens of spans that the model read, of all."""
    history_share: float
    with_full: Mapping[str, Mapping[str, float]]
    """For each measure, each run's agreement with the turn under the full history …"""
    with_recorded: Mapping[str, Mapping[str, float]]
    """… and with what the recorded agent did."""

    @property
    def runs(self) -> int:
        return len(self.with_full["exact"])

    def full(self, measure: str) -> Interval:
        return bootstrap(list(self.with_full[measure].values()))

    def recorded(self, measure: str) -> Interval:
        return bootstrap(list(self.with_recorded[measure].values()))

    def ahead_of(self, other: Agreed, measure: str) -> Interval | None:
        """Return by how much more this one agrees with the full history, over the runs that both have; paired."""
        ours, theirs = self.with_full[measure], other.with_full[measure]
        both = [ours[run] - theirs[run] for run in ours if run in theirs]
        return bootstrap(both) if both else None


def compare(answers: Iterable[Answer]) -> list[Agreed]:
    """Compare every method, in the order of tables, over the points at which each has an answer of one model."""
    lines: defaultdict[tuple[str, str, str], dict[Place, Answer]] = defaultdict(dict)
    for answer in answers:
        lines[answer.line][answer.place] = answer
    if not lines:
        return []
    common = set.intersection(*(set(some) for some in lines.values()))
    actions = {line: {place: action_of(some[place].turn) for place in common} for line, some in lines.items()}
    plain = {method: found for (method, _, _), found in actions.items() if method in (FULL, RECORDED)}
    if not common or plain.keys() != {FULL, RECORDED}:
        return []
    found = []
    for (method, draft, settings), some in lines.items():
        if method == RECORDED:
            continue
        own, shown = actions[method, draft, settings], [some[place] for place in sorted(common)]
        agreed = Agreed(
            method=method,
            draft=draft,
            points=len(shown),
            span_share=fmean(one.span_left / one.span_tokens for one in shown if one.span_tokens),
            history_share=fmean(one.sent_tokens / one.history_tokens for one in shown),
            with_full=_by_run(own, plain[FULL]),
            with_recorded=_by_run(own, plain[RECORDED]),
        )
        found.append(agreed)
    return sorted(found, key=lambda one: (order_of(one.method), one.draft))


def _by_run(ours: Mapping[Place, Action], theirs: Mapping[Place, Action]) -> dict[str, dict[str, float]]:
    """Return, for each measure, each run's mean agreement."""
    runs: defaultdict[str, list[Agreement]] = defaultdict(list)
    for file, run, messages in sorted(ours):
        place = file, run, messages
        runs[f"{file} {run}"].append(agreement(ours[place], theirs[place]))
    return {name: {run: fmean(getattr(one, name) for one in some) for run, some in runs.items()} for name in MEASURES}


_MEASURED = (
    "Exact: the same tools with the same values; tool: the same tools; arguments: of the values of both turns, the "
    "share that they have in common. In brackets: 95 % confidence, by bootstrap over runs; all methods over the same "
    "points."
)
_MARKS = {"tool": "s", "arguments": "o", "exact": "D"}


def agreement_table(answers: Sequence[Answer]) -> Table | None:
    """Compare each view's turn with that under the full history, over the answers of one model."""
    found = [one for one in compare(answers) if one.method != FULL]
    if not found:
        return None
    rows = []
    for one in found:
        shares = [Number(100 * one.span_share, 1), Number(100 * one.history_share, 1)]
        agreed = [cell_of(one.full(name), 1, 100) for name in MEASURES]
        rows.append(_row(one, found, [*agreed, *shares, f"{one.points:,}", f"{one.runs:,}"]))
    columns = [*_columns(), Column("Spans %", "less"), Column("History %", "less")]
    note = (
        f"The model's next turn under each method's view, against its turn with the full history. {_MEASURED} Asked "
        "again: the same prompt once more, which is as much as can be reached. Spans, history: the share of their "
        "tokens that the model read."
    )
    return Table("agreement", "Next-action agreement", note, [*columns, Column("Points"), Column("Runs")], rows)


def recorded_table(answers: Sequence[Answer]) -> Table | None:
    """Compare the model's turns with what the recorded agent did."""
    found = compare(answers)
    rows = [_row(one, found, [cell_of(one.recorded(name), 1, 100) for name in MEASURES]) for one in found]
    note = f"The model's next turn against what the recorded agent did. {_MEASURED}"
    return Table("as-recorded", "Agreement with the recorded agent", note, _columns(), rows) if rows else None


def agreement_against(answers: Sequence[Answer]) -> Table | None:
    """Subtract from FOCUS the comparators that got its share of tokens, paired."""
    found = compare(answers)
    rows = []
    for focus in found:
        for other in found:
            if focus.method in FOCUS and other.method.partition("@")[2] == focus.method and other.draft == focus.draft:
                cells = [cell_of(focus.ahead_of(other, measure), 1, 100, signed=True) for measure in MEASURES]
                name = f"{_name(focus, found)} − {method_name(other.method).partition(' @')[0]}"
                rows.append(Row(name, cells, ours=True))
    if not rows:
        return None
    columns = [Column("Exact, points"), Column("Tool, points"), Column("Arguments, points")]
    note = "Agreement with the turn under the full history, FOCUS minus the comparator with the same share of tokens."
    return Table("agreement-against", "FOCUS against the same share of tokens", note, columns, rows, stub="Difference")


def agreement_figure(answers: Sequence[Answer]) -> Figure | None:
    found = [one for one in compare(answers) if one.method != FULL]
    if not found:
        return None

    def draw(axes: Axes, theme: Theme) -> None:
        for number, (measure, marker) in enumerate(_MARKS.items()):
            for place, one in enumerate(found):
                figure = one.full(measure)
                axes.errorbar(
                    100 * figure.mean, place + 0.22 * (number - 1),
                    xerr=bars([figure], 100),
                    color=theme.colours[(0, 2, 4)[number]], marker=marker, markersize=6, capsize=2, elinewidth=1.2,
                    linestyle="none", label=measure if not place else None,
                )  # fmt: skip
        axes.set_yticks(range(len(found)), [_name(one, found) for one in found], fontsize=9)
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("agreement with the turn under the full history (%)")
        axes.legend(fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))

    note = "Each method's share of tokens stands in the table. Bars: 95 % confidence, by bootstrap over runs."
    return Figure("agreement", "Next-action agreement", note, draw, height=1.3 + 0.5 * len(found))


def _columns() -> list[Column]:
    return [Column(f"{name.capitalize()} %", "more") for name in MEASURES]


def _row(one: Agreed, found: Sequence[Agreed], cells: Sequence[Cell]) -> Row:
    return Row(_name(one, found), cells, ours=one.method in FOCUS, baseline=one.method in (FULL, AGAIN))


def _name(one: Agreed, found: Sequence[Agreed]) -> str:
    """Return the method's name, with its draft where there are several."""
    several = sum(other.method == one.method for other in found) > 1
    return f"{method_name(one.method)} ({one.draft})" if several else method_name(one.method)
