"""Write a report's files: each form, the figures once for all of them, and every table as CSV."""

from __future__ import annotations

import csv
from collections.abc import Collection
from itertools import chain
from pathlib import Path

from .document import Document
from .drawing import drawn
from .render import FORMS, render
from .table import Cell, Number, Table


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
