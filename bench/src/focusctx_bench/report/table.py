"""A table before it has a form: Markdown, LaTeX, HTML, CSV and the terminal are made from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

from focusctx.replay.lines import Interval

T = TypeVar("T")
Better: TypeAlias = Literal["more", "less"]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    better: Better | None = None
    """`more` or `less` if one of them is good; the best of such a column is marked."""
    group: str = ""
    """A heading over several columns."""
    optional: bool = False
    """True to leave it out when it would hold nothing, or nothing but zeros."""


@dataclass(frozen=True, slots=True)
class Number:
    value: float
    digits: int = 2
    low: float | None = None
    high: float | None = None
    """The interval in which the mean lies with 95 % confidence."""
    paper: float | None = None
    """The paper's figure for the same setting."""
    signed: bool = False

    @property
    def text(self) -> str:
        return self._written(self.value)

    @property
    def interval(self) -> str | None:
        if self.low is None or self.high is None:
            return None
        return f"{self._written(self.low)}, {self._written(self.high)}"

    @property
    def in_paper(self) -> str | None:
        """The paper's figure, with its own digits where there are no more of them than here."""
        return None if self.paper is None else f"{round(self.paper, max(self.digits, 2)):,.10g}"

    def _written(self, value: float) -> str:
        written = f"{value:{'+' if self.signed else ''},.{self.digits}f}"
        return written.replace("-", "−") if float(written.replace(",", "")) else written.lstrip("+-")


Cell: TypeAlias = Number | str | None


def cell_of(
    figure: Interval | float | None,
    digits: int = 2,
    scale: float = 1.0,
    *,
    paper: float | None = None,
    signed: bool = False,
) -> Number | None:
    """Return the cell of a figure, with its interval where it has one; None where there is no figure."""
    if figure is None:
        return None
    if not isinstance(figure, Interval):
        return Number(scale * figure, digits, paper=paper, signed=signed)
    mean, low, high = (scale * value for value in figure)
    return Number(mean, digits, low, high, paper, signed)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    cells: Sequence[Cell]
    ours: bool = False
    """True for FOCUS."""
    baseline: bool = False
    """True for what the others are measured against; it is never the best."""

    @property
    def has_paper(self) -> bool:
        """True if the paper has a figure for some cell."""
        return any(isinstance(cell, Number) and cell.in_paper is not None for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Table:
    key: str
    title: str
    note: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    stub: str = "Method"
    """Heading of the first column."""

    def best(self) -> set[tuple[int, int]]:
        """Return row and column of the best number of each column that has one, ties included."""
        found = set()
        for place, column in enumerate(self.columns):
            numbers = {
                at: cell
                for at, row in enumerate(self.rows)
                if not row.baseline and isinstance(cell := row.cells[place], Number)
            }
            if column.better is None or len({number.text for number in numbers.values()}) < 2:
                continue
            choose = max if column.better == "more" else min
            winner = choose(numbers.values(), key=lambda number: number.value)
            found |= {(at, place) for at, number in numbers.items() if number.text == winner.text}
        return found

    def without_empty_columns(self) -> Table:
        shown = [
            place
            for place, column in enumerate(self.columns)
            if not column.optional or any(_says_something(row.cells[place]) for row in self.rows)
        ]
        rows = [replace(row, cells=[row.cells[place] for place in shown]) for row in self.rows]
        return replace(self, columns=[self.columns[place] for place in shown], rows=rows)


RowOf: TypeAlias = Callable[[T, Sequence[Cell]], Row]
Fields: TypeAlias = Sequence[tuple[Column, Callable[[T], Cell]]]
"""Columns of a table, each with the function that makes its cells."""


def table_of(key: str, title: str, note: str, fields: Fields[T], *, things: Iterable[T], row: RowOf[T]) -> Table:
    """Return a table with a row for each thing; optional columns without content are left out."""
    rows = [row(thing, [cell(thing) for _, cell in fields]) for thing in things]
    return Table(key, title, note, [column for column, _ in fields], rows).without_empty_columns()


def _says_something(cell: Cell) -> bool:
    return bool(cell.value or cell.paper) if isinstance(cell, Number) else cell is not None
