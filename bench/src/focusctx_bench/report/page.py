"""The report as one HTML file: no script, nothing from elsewhere, light and dark."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from importlib.resources import files
from itertools import groupby

from .document import Document, Section
from .figures import DARK, LIGHT, Figure, drawn
from .table import Cell, Column, Number, Row, Table

_ARROWS = {"more": "↑", "less": "↓"}
_ARROW_NAMES = {"more": "more is better", "less": "less is better"}


def page(document: Document, *, pictures: bool) -> str:
    style = files("focusctx").joinpath("look.css").read_text("utf-8")
    own = files(__package__).joinpath("page.css").read_text("utf-8")
    title = escape(document.title)
    contents = "".join(
        f'<li><a href="#{section.key}">{escape(section.title)}</a></li>' for section in document.sections
    )
    several = len(document.sections) > 1
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta http-equiv="Content-Security-Policy" content="'
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'\">",
        '<meta name="color-scheme" content="light dark">',
        f"<title>{title}</title>\n<style>\n{style}\n{own}</style>\n</head>\n<body>\n<main>",
        f"<h1>{title}</h1>",
        *(f'<p class="note"><code>{escape(command)}</code></p>' for command in document.commands),
        *(f'<p class="notice">{escape(notice)}</p>' for notice in document.notices[:-1]),
        f"<nav><ul>{contents}</ul></nav>" if several else "",
        *(_section(section, pictures) for section in document.sections),
        f"</main>\n<footer>{escape(document.notices[-1])}</footer>\n</body>\n</html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _section(section: Section, pictures: bool) -> str:
    shown = [_figure(figure) for figure in section.figures] if pictures else []
    return "\n".join(
        [
            f'<section id="{section.key}">',
            f"<h2>{escape(section.title)}</h2>",
            f"<p>{escape(section.facts)}</p>",
            *(_table(section, table) for table in section.tables[:1]),
            *shown,
            *(_table(section, table) for table in section.tables[1:]),
            "</section>",
        ]
    )


def _table(section: Section, table: Table) -> str:
    best = table.best()
    heads = "".join(_head(column) for column in table.columns)
    rows = "\n".join(_row(row, {place for at, place in best if at == number}) for number, row in enumerate(table.rows))
    key = f"{section.key}-{table.key}"
    return (
        f'<h3 id="{key}">{escape(table.title)}</h3>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{key}">\n<table>\n<thead>{_groups(table)}'
        f'<tr><th scope="col">{escape(table.stub)}</th>{heads}</tr></thead>\n'
        f'<tbody>\n{rows}\n</tbody>\n</table>\n</div>\n<p class="note">{escape(table.note)}</p>'
    )


def _groups(table: Table) -> str:
    if not any(column.group for column in table.columns):
        return ""
    cells = [
        f'<th scope="colgroup" colspan="{len(list(some))}">{escape(name)}</th>'
        for name, some in groupby(table.columns, key=lambda column: column.group)
    ]
    return f'<tr class="groups"><td></td>{"".join(cells)}</tr>'


def _head(column: Column) -> str:
    if column.better is None:
        return f'<th scope="col">{escape(column.name)}</th>'
    arrow = f'<span title="{_ARROW_NAMES[column.better]}">{_ARROWS[column.better]}</span>'
    return f'<th scope="col">{escape(column.name)} {arrow}</th>'


def _row(row: Row, best: set[int]) -> str:
    kind = ' class="ours"' if row.ours else ' class="baseline"' if row.baseline else ""
    cells = "".join(f"<td>{_cell(cell, place in best)}</td>" for place, cell in enumerate(row.cells))
    return f'<tr{kind}><th scope="row">{escape(row.name)}</th>{cells}</tr>'


def _cell(cell: Cell, best: bool) -> str:
    if not isinstance(cell, Number):
        return escape(cell or "–")
    told = f"<b>{cell.text}</b>" if best else cell.text
    if cell.interval is not None:
        told += f" <small>[{cell.interval}]</small>"
    if cell.in_paper is not None:
        told += f' <small class="paper">paper {cell.in_paper}</small>'
    return told


def _figure(figure: Figure) -> str:
    """Both looks in the page; the browser shows the one that fits."""
    light, dark = (_data(drawn(figure, theme)) for theme in (LIGHT, DARK))
    note = f" {escape(figure.note)}" if figure.note else ""
    return (
        f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(figure.title)}; the tables have the numbers"></picture>'
        f"<figcaption><b>{escape(figure.title)}.</b>{note}</figcaption></figure>"
    )


def _data(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{b64encode(svg).decode()}"
