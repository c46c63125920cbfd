"""The spans of one event as a table, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ..explain import evidence, summary
from ..types import Decision, Result, Span
from .output import printable, short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_COLOURS = {
    "kept": "green",
    "rescued": "yellow",
    "pinned": "cyan",
    "excerpt": "blue",
    "record": "magenta",
    "dropped": "red",
}
_LONGEST = 200
"""More characters of a cell than any window shows."""
_MANY = 5
"""Number of conversations above which each gets one line instead of a table."""
_WIDE = 100
_NARROWEST = 10


def print_events(console: Console, events: Sequence[tuple[str, Result]], budget: int, *, failures: bool = True) -> None:
    """Print each event under its name, and the total; a single event needs neither. Without `failures` failed events
    are left out, for callers that report them elsewhere."""
    shown = [(name, result) for name, result in events if failures or result.failure is None]
    if len(events) == 1:
        for _, result in shown:
            _print_event(console, result)
            if result.tokens_before <= budget:
                console.print(
                    f"The budget is {budget}; pass a smaller --budget to compress this history.", soft_wrap=True
                )
        return
    many = len(events) > _MANY
    for name, result in shown:
        if many:
            console.print(printable(f"{name}: {summary(result)}"), soft_wrap=True)
            for warning in result.warnings:
                console.print(printable(f"  warning: {warning}"), style="yellow", soft_wrap=True)
            continue
        console.print(printable(name), style="bold", soft_wrap=True)
        _print_event(console, result)
        console.print()
    before = sum(result.tokens_before for _, result in events)
    after = sum(result.tokens_after for _, result in events)
    saved = 1 - after / before if before else 0.0
    console.print(f"{len(events)} conversations: {before} → {after} tokens ({saved:.0%} saved)", style="bold")


def _print_event(console: Console, result: Result) -> None:
    """Print the table, if the event has decisions, and a summary below it."""
    if result.decisions:
        console.print(_table(result, console.width))
        console.print()
    for warning in result.warnings:
        console.print(f"warning: {printable(warning)}", style="yellow", soft_wrap=True)
    console.print(printable(summary(result)), style="bold" if result.compressed else "", soft_wrap=True)


def what(span: Span) -> str:
    """Describe a step in one line: its action, or its words if it took none."""
    return short(span.action or span.thought or span.observation, _LONGEST)


def why(decision: Decision, sketches: int) -> str:
    """Return the deciding reason: what pinned the span, what cites it, or that too few did."""
    if decision.pinned:
        return decision.pinned
    if decision.fate in ("kept", "rescued") and decision.reasons:
        return short(decision.reasons[0], _LONGEST)
    return evidence(decision, sketches)


def numbers(values: Sequence[int]) -> str:
    """Format 1, 2, 3 and 5 as `1-3,5`."""
    runs = [
        [value for _, value in run]
        for _, run in groupby(enumerate(sorted(values)), key=lambda place: place[1] - place[0])
    ]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _table(result: Result, width: int) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = _rows(result)
    wide = width >= _WIDE
    names = ("span", "tokens", "utility", "decision", "cited by" if wide else "by")
    fixed = [max(len(name), *(len(row[column]) for row in rows)) for column, name in enumerate(names)]
    # Ids and numbers are never cut; the two texts share the remaining room.
    gaps = (len(names) + 1) * (2 if wide else 1)
    room = max(width - sum(fixed) - gaps, 2 * _NARROWEST)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, int(wide), 0, 0), pad_edge=False)
    for name, size in zip(names, fixed, strict=True):
        table.add_column(name, width=size, no_wrap=True, justify="right" if name in ("tokens", "utility") else "left")
    table.add_column("what it did", width=room // 2, no_wrap=True, overflow="ellipsis")
    table.add_column("why", width=room - room // 2, no_wrap=True, overflow="ellipsis")
    for decision, row in zip(result.decisions, rows, strict=True):
        cells = [Text(cell, style=_COLOURS[decision.fate] if cell is decision.fate else "") for cell in row]
        table.add_row(*cells, style="dim" if decision.fate == "dropped" else "")
    return table


def _size(decision: Decision) -> str:
    """Return a span's tokens, and how many of them an excerpt or a record leaves."""
    if decision.fate in ("excerpt", "record"):
        return f"{decision.left}/{decision.tokens}"
    return str(decision.tokens)


def _rows(result: Result) -> list[tuple[str, ...]]:
    did = {span.index: what(span) for span in result.history.spans} if result.history else {}
    return [
        (
            f"s_{decision.index}",
            _size(decision),
            f"{decision.utility:.2f}",
            decision.fate,
            numbers(decision.cited_by) or "-",
            did.get(decision.index, ""),
            printable(why(decision, len(result.sketches))),
        )
        for decision in result.decisions
    ]
