"""The tables of a run on the terminal: for every benchmark the main one, and those of settings that were varied."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from focusctx.cli.output import column_widths, parts_that_fit

from ..report.document import Number, Table
from ..results.collect import collect
from ..results.tables import tables
from ..spending import Estimate

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = ("main", "spread", "draft", "rollouts", "threshold", "budget")
_ARROWS = {"more": " ↑", "less": " ↓"}
_DETAILS = ((99, True), (2, True), (1, True), (0, True), (1, False), (0, False))
"""Columns with their intervals, and whether the paper's figures are shown: from most to least."""


def print_tables(console: Console, folder: Path) -> None:
    for study in collect(folder):
        for table in tables(study, _SHOWN):
            name = "" if table.key == "main" else f": {table.title.lower()}"
            # A model's name is no markup: rich would draw scripted:office: as a building.
            console.print(f"\n{study.title}, agent {study.model}{name}", style="bold", markup=False, emoji=False)
            print_table(console, table)
            console.print(table.note, style="dim", markup=False, emoji=False)
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
    """Print a table with as much detail as the terminal has room for; in parts, if it is too narrow for the least."""
    from rich import box
    from rich.table import Table as Drawn
    from rich.text import Text

    texts: list[list[str]] = []
    for intervals, paper in _DETAILS:
        texts = _texts(table, intervals, paper)
        if sum(column_widths(texts)) <= console.width:
            break
    head, *rows = texts
    best = table.best()
    for places in parts_that_fit(column_widths(texts), console.width):
        drawn = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for place in places:
            drawn.add_column(head[place], justify="right" if place else "left", no_wrap=place > 0)
        for at, (row, words) in enumerate(zip(table.rows, rows, strict=True)):
            styles = {0: "cyan" if row.ours else ""}
            styles |= {place + 1: "bold" for place in range(len(row.cells)) if (at, place) in best}
            drawn.add_row(*(Text(words[place], styles.get(place, "")) for place in places))
        console.print(drawn)


def _texts(table: Table, intervals: int, paper: bool) -> list[list[str]]:
    """Return the words of all cells, the head first."""
    texts = [[table.stub, *(f"{column.name}{_ARROWS.get(column.better or '', '')}" for column in table.columns)]]
    for row in table.rows:
        words = [row.name]
        for place, cell in enumerate(row.cells):
            if not isinstance(cell, Number):
                words.append(cell or "–")
                continue
            between = f" [{cell.interval}]" if place < intervals and cell.interval is not None else ""
            theirs = f" (paper {cell.in_paper})" if paper and cell.in_paper is not None else ""
            words.append(f"{cell.text}{between}{theirs}")
        texts.append(words)
    return texts
