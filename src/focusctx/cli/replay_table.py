"""The records of a replay as a table on the terminal: a line for each method, under the name of each file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..prices import price_of
from ..replay.lines import Line, by_file, lines_of
from ..replay.record import ReplayRecord, RunRecord
from .columns import column_widths, parts_that_fit
from .terminal import printable

if TYPE_CHECKING:
    from rich.console import Console

Columns: TypeAlias = Mapping[str, Callable[[Line[Any]], str]]


def print_walks(console: Console, records: Iterable[RunRecord], model: str) -> None:
    """Print walks; `model` is the one at whose prices calls are counted."""
    columns: Columns = {
        "runs": lambda line: str(line.runs),
        "recall": with_interval("recall"),
        "supported": share("whole"),
        "spans": share("span_share"),
        "all": share("history_share"),
        "events": _number("events", 1),
        "failed": lambda line: str(line.total("failures")),
        "forgotten": lambda line: f"{line.total('forgotten')}/{line.total('repeated')}",
        "floored": share("floored_share", 2),
        "peak": _number("peak", 0),
        "dep. M": _number("dependency", 1, 1e-6),
        "$": _number("cost", 3),
        "$ cached": _number("cost_cached", 3),
    }
    every = list(records)
    for file, some in by_file(every).items():
        print_lines(console, f"{file}, δ {', '.join(map(str, sorted({one.budget for one in some})))}", some, columns)
    print_words_lost(console, every)
    console.print(
        "recall: share of the facts an action needed that were in its view, with 95 % interval; supported: actions "
        "that had all of them; spans, all: share of the spans' tokens and of all tokens that was sent; failed: "
        "compressions that were due but failed; forgotten: failing calls repeated after their failure was dropped; "
        "floored: share of steps at which a method could not go as low as FOCUS; $: cost of the agent's calls per run, "
        f"{_prices(model)}.",
        style="dim",
        soft_wrap=True,
    )


def print_lines(console: Console, title: str, records: Sequence[ReplayRecord], columns: Columns) -> None:
    """Print one table, in as many parts as the terminal's width asks for."""
    from rich import box
    from rich.table import Table

    head = ["method", *columns]
    rows = [
        [printable(line.name), *(figure(line) for figure in columns.values())]
        for line in lines_of(records, budgets=False)
    ]
    for number, places in enumerate(parts_that_fit(column_widths([head, *rows]), console.width)):
        table = Table(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0),
            title=None if number else printable(title), title_justify="left",
        )  # fmt: skip
        for place in places:
            table.add_column(head[place], justify="right" if place else "left", no_wrap=place > 0, overflow="fold")
        for row in rows:
            table.add_row(*(row[place] for place in places))
        console.print(table)
        console.print()


def print_words_lost(console: Console, records: Sequence[ReplayRecord]) -> None:
    """Print how many words of the user some view lacked: there must be none."""
    lost = sum(record.words_lost for record in records)
    console.print(f"words of the user or of system prompts lost: {lost}", style="bold red" if lost else "")


def with_interval(measure: str) -> Callable[[Line[Any]], str]:
    """Format a share with its interval: `.912 [.90 .93]`."""

    def figure(line: Line[Any]) -> str:
        found = line.mean(measure)
        return f"{_short(found.mean)} [{_short(found.low, 2)} {_short(found.high, 2)}]" if found else "-"

    return figure


def share(measure: str, digits: int = 3) -> Callable[[Line[Any]], str]:
    """Format a share: `.912`."""

    def figure(line: Line[Any]) -> str:
        found = line.average(measure)
        return "-" if found is None else _short(found, digits)

    return figure


def _number(measure: str, digits: int, scale: float = 1.0) -> Callable[[Line[Any]], str]:
    def figure(line: Line[Any]) -> str:
        found = line.average(measure)
        return "-" if found is None else f"{scale * found:.{digits}f}"

    return figure


def _prices(model: str) -> str:
    if price_of(model) is None:
        return f"unknown, since {printable(model)} has no known price (--model)"
    return f"at {printable(model)}'s prices (--model; earlier records keep their prices)"


def _short(number: float, digits: int = 3) -> str:
    return f"{number:.{digits}f}".removeprefix("0")
