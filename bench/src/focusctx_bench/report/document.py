"""A report before it has a form, and its files: Markdown, LaTeX (booktabs), one HTML file, and every table as CSV.

Markdown, LaTeX and HTML come from the templates beside this file; figures are drawn once for all of them."""

from __future__ import annotations

import csv
import io
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from focusctx.replay.lines import Interval

from .drawing import DARK, LIGHT, Figure, drawn

T = TypeVar("T")
Better: TypeAlias = Literal["more", "less"]
FORMS = {"markdown": "report.md", "latex": "report.tex", "html": "report.html"}
"""Each form, and the name of its file."""
_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "δ": r"$\delta$", "τ": r"$\tau$", "−": r"$-$", "–": "--", "“": "``", "”": "''", "…": r"\ldots{}", "≤": r"$\leq$",
}  # fmt: skip
_TEX_MARKS: dict[str, Any] = {
    "block_start_string": "<%",
    "block_end_string": "%>",
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}
"""Braces belong to LaTeX."""


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
            if not column.optional
            or any(
                cell.value or cell.paper if isinstance(cell := row.cells[place], Number) else cell is not None
                for row in self.rows
            )
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


@dataclass(frozen=True, slots=True)
class Section:
    key: str
    """For file names and labels."""
    title: str
    facts: str
    tables: Sequence[Table]
    figures: Sequence[Figure]


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    notices: Sequence[str]
    sections: Sequence[Section]
    commands: Sequence[str] = ()
    """The commands that made the records."""

    def figure_name(self, section: Section, figure: Figure, form: str) -> str:
        return f"figures/{section.key}-{figure.key}.{form}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """Return a Markdown table of finished cells: the first `left` columns to the left, the others to the right."""
    ruler = ["---" if place < left else "---:" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ruler, *rows))


def slug(text: str) -> str:
    """Return a key made of a text: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:80].strip("-")


def listed(parts: Sequence[str]) -> str:
    """Join words with commas, and the last one with "and"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def render(document: Document, form: str) -> str:
    """Return the document in one of `FORMS`."""
    environment = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=form == "html",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **(_TEX_MARKS if form == "latex" else {}),
    )
    environment.filters |= {"md": _markdown, "tex": _tex}
    environment.tests["number"] = lambda cell: isinstance(cell, Number)
    style = files("focusctx").joinpath("look.css").read_text("utf-8")
    own = files(__package__).joinpath("templates/page.css").read_text("utf-8")
    template = environment.get_template(f"{FORMS[form]}.j2")
    return template.render(document=document, groups=_groups, picture=_picture, style=Markup(f"{style}\n{own}"))


def _groups(table: Table) -> list[tuple[str, int, int]]:
    """Return the headings over several columns: name, number of the first column, and how many."""
    found, first = [], 0
    for name, some in groupby(table.columns, key=lambda column: column.group):
        width = len(list(some))
        found.append((name, first, width))
        first += width
    return found if any(name for name, *_ in found) else []


def _picture(figure: Figure, look: str) -> str:
    """Return a figure as a data URL, light or dark."""
    svg = drawn(figure, DARK if look == "dark" else LIGHT)
    return f"data:image/svg+xml;base64,{b64encode(svg).decode()}"


def _markdown(text: str) -> str:
    """Escape a table cell: names come from users, and nothing in them may end it."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _tex(text: str) -> str:
    """Escape text for LaTeX; letters that the fonts lack become question marks, since names come from users."""
    return "".join(_TEX.get(letter) or (letter if letter < "\u0180" else "?") for letter in text)


def write_report(
    document: Document, folder: Path, forms: Collection[str] = tuple(FORMS), *, tables: bool = False
) -> list[Path]:
    """Write the document, and with `tables` each table as CSV; return the files."""
    written: list[Path] = []

    def write(name: str, content: bytes) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        written.append(path)

    for form in forms:
        write(FORMS[form], render(document, form).encode())
    for section in document.sections:
        for figure in section.figures:
            for kind in ("png", "svg"):
                write(document.figure_name(section, figure, kind), drawn(figure, form=kind))
    for section in document.sections if tables else ():
        for table in section.tables:
            write(f"tables/{section.key}-{table.key}.csv", _as_csv(table).encode())
    return written


def _as_csv(table: Table) -> str:
    """Return plain numbers, each interval in two columns of its own."""
    columns: list[list[Any]] = [[table.stub, *(row.name for row in table.rows)]]
    for place, column in enumerate(table.columns):
        head = f"{column.group}: {column.name}" if column.group else column.name
        cells = [row.cells[place] for row in table.rows]
        columns.append([head, *(cell.value if isinstance(cell, Number) else cell for cell in cells)])
        if any(isinstance(cell, Number) and cell.low is not None for cell in cells):
            numbers = [cell if isinstance(cell, Number) else None for cell in cells]
            columns.append([f"{head} low", *(number and number.low for number in numbers)])
            columns.append([f"{head} high", *(number and number.high for number in numbers)])
    file = io.StringIO(newline="")
    for row in zip(*columns, strict=True):
        csv.writer(file).writerow([round(cell, 6) if isinstance(cell, float) else cell for cell in row])
    return file.getvalue()
