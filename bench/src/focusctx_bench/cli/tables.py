"""The tables of a run on the terminal: for every benchmark the main one, and those of settings that were varied."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..estimate import Estimate
from ..report.table import Cell, Number, Table
from ..results.collect import collect
from ..results.tables import tables

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = ("main", "spread", "draft", "rollouts", "threshold", "budget")
_ARROWS = {"more": " ↑", "less": " ↓"}
_WIDTHS = ((130, 99), (105, 2), (90, 1), (0, 0))
"""From how wide a terminal is to how many columns have room for their intervals."""


def print_tables(console: Console, folder: Path) -> None:
    for study in collect(folder):
        for table in tables(study, _SHOWN):
            name = "" if table.key == "main" else f": {table.title.lower()}"
            console.print(f"\n{study.title}, agent {study.model}{name}", style="bold")
            print_table(console, table)
            console.print(table.note, style="dim")
    console.print(f"\n`focusctx bench report {folder}` makes all tables and figures of it.")


def print_estimate(console: Console, estimates: Sequence[Estimate]) -> None:
    """Print what a run would cost, variant by variant, and in all."""
    from rich import box
    from rich.table import Table as Drawn

    drawn = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    drawn.add_column("Variant", overflow="fold")
    for name in ("Tasks", "Requests", "Tokens in", "Tokens out", "USD"):
        drawn.add_column(name, justify="right", no_wrap=True)
    for one in estimates:
        cost = "no price" if one.cost is None else f"{one.cost:,.2f}"
        sizes = (one.tasks, one.requests, one.input_tokens, one.output_tokens)
        drawn.add_row(f"{one.benchmark}: {one.variant}", *(f"{size:,.0f}" for size in sizes), cost)
    console.print(drawn)
    total = sum(one.cost or 0.0 for one in estimates)
    more = " and the models without a price" if any(one.cost is None for one in estimates) else ""
    console.print(f"About ${total:,.2f} in all{more}, at list prices without a cache. Nothing was run.")
    for benchmark, basis in dict.fromkeys((one.benchmark, one.basis) for one in estimates):
        console.print(f"Sizes for {benchmark}: {basis}. They may be off by a factor of two.", style="dim")


def print_table(console: Console, table: Table) -> None:
    from rich import box
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    drawn.add_column(table.stub, no_wrap=True)
    for column in table.columns:
        name = f"{column.name}{_ARROWS.get(column.better or '', '')}"
        drawn.add_column(name, justify="right", no_wrap=True)
    best = table.best()
    with_interval = next(columns for width, columns in _WIDTHS if console.width >= width)
    for at, row in enumerate(table.rows):
        texts = [_cell(cell, place < with_interval) for place, cell in enumerate(row.cells)]
        cells = [Text(text, "bold" if (at, place) in best else "") for place, text in enumerate(texts)]
        drawn.add_row(Text(row.name, "cyan" if row.ours else ""), *cells)
    console.print(drawn)


def _cell(cell: Cell, with_interval: bool) -> str:
    if not isinstance(cell, Number):
        return cell or "–"
    text = f"{cell.text} [{cell.interval}]" if with_interval and cell.interval is not None else cell.text
    return text if cell.in_paper is None else f"{text} (paper {cell.in_paper})"
