"""Writing the report's files: each form, the pictures, and every table as CSV."""

from __future__ import annotations

import csv
from collections.abc import Collection
from pathlib import Path

from ...report.document import Document
from ...report.table import Cell, Number, Table
from ...report.write import FORMS, write_report


def write(document: Document, folder: Path, forms: Collection[str] = tuple(FORMS)) -> list[Path]:
    """The files that were written. Without matplotlib there are tables only."""
    written = write_report(document, folder, forms)
    tables = folder / "tables"
    tables.mkdir(exist_ok=True)
    for section in document.sections:
        for table in section.tables:
            path = tables / f"{section.key}-{table.key}.csv"
            _write_csv(table, path)
            written.append(path)
    return written


def _write_csv(table: Table, path: Path) -> None:
    """Plain numbers, each interval in two columns of its own."""
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        ranged = [any(_has_interval(row.cells[place]) for row in table.rows) for place in range(len(table.columns))]
        heads = [f"{column.group}: {column.name}" if column.group else column.name for column in table.columns]
        out.writerow(
            [table.stub, *(name for head, wide in zip(heads, ranged, strict=True) for name in _names(head, wide))]
        )
        for row in table.rows:
            cells = zip(row.cells, ranged, strict=True)
            out.writerow([row.name, *(value for cell, wide in cells for value in _values(cell, wide))])


def _names(head: str, ranged: bool) -> list[str]:
    return [head, f"{head} low", f"{head} high"] if ranged else [head]


def _values(cell: Cell, ranged: bool) -> list[float | str | None]:
    if not isinstance(cell, Number):
        return [cell, None, None] if ranged else [cell]
    low, high = (None if end is None else round(end, 6) for end in (cell.low, cell.high))
    return [round(cell.value, 6), low, high] if ranged else [round(cell.value, 6)]


def _has_interval(cell: Cell) -> bool:
    return isinstance(cell, Number) and cell.low is not None
