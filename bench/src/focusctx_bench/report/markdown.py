"""The report as Markdown."""

from __future__ import annotations

from .document import Document, Section
from .table import Cell, Column, Number, Table

_ARROWS = {"more": " ↑", "less": " ↓"}


def markdown(document: Document, *, pictures: bool) -> str:
    parts = [f"# {document.title}", *(f"`{command}`" for command in document.commands), *document.notices]
    for section in document.sections:
        parts += [f"## {section.title}", section.facts]
        parts += [part for table in section.tables for part in (f"### {table.title}", table_lines(table), table.note)]
        if pictures:
            parts += [part for part in _pictures(document, section) if part]
    return "\n\n".join(parts) + "\n"


def table_lines(table: Table) -> str:
    best = table.best()
    rows = [[table.stub, *(_head(column) for column in table.columns)]]
    rows.append(["---", *("---:" for _ in table.columns)])
    for at, row in enumerate(table.rows):
        cells = [_cell(cell, (at, place) in best) for place, cell in enumerate(row.cells)]
        rows.append([_plain(row.name), *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _head(column: Column) -> str:
    group = f"{column.group}: " if column.group else ""
    return _plain(f"{group}{column.name}{_ARROWS.get(column.better or '', '')}")


def _cell(cell: Cell, best: bool) -> str:
    if not isinstance(cell, Number):
        return _plain(cell or "–")
    told = f"**{cell.text}**" if best else cell.text
    if cell.interval is not None:
        told += f" [{cell.interval}]"
    return f"{told} (paper {cell.in_paper})" if cell.in_paper is not None else told


def _plain(text: str) -> str:
    """Names come from users: nothing in them may end a cell."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _pictures(document: Document, section: Section) -> list[str]:
    parts = []
    for figure in section.figures:
        path = document.figure_name(section, figure, "svg")
        parts += [f"### {figure.title}", f"![{figure.title}]({path})", figure.note]
    return parts
