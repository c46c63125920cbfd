"""A report before it has a form, and its files: Markdown, LaTeX (booktabs), one HTML file, and every table as CSV.

Markdown, LaTeX and HTML come from the templates beside this file; figures are drawn once for all of them.
"""

from __future__ import annotations

import csv
import re
from base64 import b64encode
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from .drawing import DARK, LIGHT, Figure, drawn
from .table import Cell, Number, Table


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


def slug(text: str) -> str:
    """Return a key made of a text: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:80].strip("-")


def listed(parts: Sequence[str]) -> str:
    """Join words with commas, and the last one with "and"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


FORMS = {"markdown": "report.md", "latex": "report.tex", "html": "report.html"}
"""Each form, and the name of its file."""

_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "δ": r"$\delta$", "τ": r"$\tau$", "−": r"$-$", "–": "--", "“": "``", "”": "''", "…": r"\ldots{}", "≤": r"$\leq$",
}  # fmt: skip


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


_TEX_MARKS: dict[str, Any] = {
    "block_start_string": "<%",
    "block_end_string": "%>",
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}
"""Braces belong to LaTeX."""


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
            path = folder / "tables" / f"{section.key}-{table.key}.csv"
            path.parent.mkdir(exist_ok=True)
            _write_csv(table, path)
            written.append(path)
    return written


def _write_csv(table: Table, path: Path) -> None:
    """Write plain numbers, each interval in two columns of its own."""
    ranged = [any(_has_interval(row.cells[place]) for row in table.rows) for place in range(len(table.columns))]
    heads = [f"{column.group}: {column.name}" if column.group else column.name for column in table.columns]
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        ends = ("", " low", " high")
        names = ((f"{head}{end}" for end in ends[: 3 if wide else 1]) for head, wide in zip(heads, ranged, strict=True))
        out.writerow([table.stub, *chain.from_iterable(names)])
        for row in table.rows:
            values = (_values(cell)[: 3 if wide else 1] for cell, wide in zip(row.cells, ranged, strict=True))
            out.writerow([row.name, *chain.from_iterable(values)])


def _values(cell: Cell) -> list[float | str | None]:
    if not isinstance(cell, Number):
        return [cell, None, None]
    return [None if value is None else round(value, 6) for value in (cell.value, cell.low, cell.high)]


def _has_interval(cell: Cell) -> bool:
    return isinstance(cell, Number) and cell.low is not None
