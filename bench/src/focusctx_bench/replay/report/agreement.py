"""Next-action agreement as a table and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from focusctx.replay.lines import method_name, order_of
from focusctx.replay.methods import FOCUS

from ...report.drawing import Figure, Theme, bars
from ...report.table import Cell, Column, Number, Row, Table, cell_of
from ..agreement.compare import MEASURES, Agreed, compare
from ..agreement.views import AGAIN, FULL, Answer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MEASURED = (
    "Exact: the same tools with the same values; tool: the same tools; arguments: of the values of both turns, the "
    "share that they have in common. In brackets: 95 % confidence, by bootstrap over runs; all methods over the same "
    "points."
)
_MARKS = {"tool": "s", "arguments": "o", "exact": "D"}


def agreed(answers: Sequence[Answer]) -> list[Agreed]:
    return sorted(compare(answers), key=lambda one: (order_of(one.method), one.draft))


def agreement_table(answers: Sequence[Answer]) -> Table | None:
    """Over the answers of one model: each view's turn against that with the full history."""
    found = [one for one in agreed(answers) if one.method != FULL]
    if not found:
        return None
    rows = []
    for one in found:
        cells: list[Cell] = [cell_of(one.full(name), 1, 100) for name in MEASURES]
        cells += [
            Number(100 * one.span_share, 1),
            Number(100 * one.history_share, 1),
            f"{one.points:,}",
            f"{one.runs:,}",
        ]
        rows.append(_row(one, found, cells))
    columns = [*_columns(), Column("Spans %", "less"), Column("History %", "less")]
    note = (
        f"The model's next turn under each method's view, against its turn with the full history. {_MEASURED} Asked "
        "again: the same prompt once more, which is as much as can be reached. Spans, history: the share of their "
        "tokens that the model read."
    )
    return Table("agreement", "Next-action agreement", note, [*columns, Column("Points"), Column("Runs")], rows)


def recorded_table(answers: Sequence[Answer]) -> Table | None:
    """Compare the model's turns with what the recorded agent did."""
    found = agreed(answers)
    rows = [_row(one, found, [cell_of(one.recorded(name), 1, 100) for name in MEASURES]) for one in found]
    note = f"The model's next turn against what the recorded agent did. {_MEASURED}"
    return Table("as-recorded", "Agreement with the recorded agent", note, _columns(), rows) if rows else None


def agreement_against(answers: Sequence[Answer]) -> Table | None:
    """FOCUS minus the comparators that got its share of tokens, paired."""
    found = agreed(answers)
    rows = []
    for focus in found:
        for other in found:
            if focus.method in FOCUS and other.method.partition("@")[2] == focus.method and other.draft == focus.draft:
                differences = [focus.ahead_of(other, measure) for measure in MEASURES]
                cells = [cell_of(one, 1, 100, signed=True) for one in differences]
                rows.append(
                    Row(f"{_name(focus, found)} − {method_name(other.method).partition(' @')[0]}", cells, ours=True)
                )
    if not rows:
        return None
    columns = [Column("Exact, points"), Column("Tool, points"), Column("Arguments, points")]
    note = "Agreement with the turn under the full history, FOCUS minus the comparator with the same share of tokens."
    return Table("agreement-against", "FOCUS against the same share of tokens", note, columns, rows, stub="Difference")


def agreement_figure(answers: Sequence[Answer]) -> Figure | None:
    found = [one for one in agreed(answers) if one.method != FULL]
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
