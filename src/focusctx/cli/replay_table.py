"""The records of a replay as a table on the terminal: a line for each method, under the name of each file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..prices import price_of
from ..replay.advice import ENOUGH_FACTS, advice, facts_of, log_in_words
from ..replay.lines import Line, by_file, lines_of
from ..replay.record import ReplayRecord, RunRecord
from .output import column_widths, parts_that_fit, printable

if TYPE_CHECKING:
    from rich.console import Console

    from ..replay.runs import Run

Columns: TypeAlias = Mapping[str, Callable[[Line[Any]], str]]


def print_walks(console: Console, records: Iterable[RunRecord], model: str) -> None:
    """Print walks; `model` is the one at whose prices calls are counted."""
    columns: Columns = {
        "runs": _runs,
        "facts": lambda line: f"{facts_of(line)[1]:,}",
        "recall": _recall,
        "supported": _supported,
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
        "runs: those in which an action needed a fact, of all; facts: how many were needed in them; recall: share of "
        f"those that were in view, with 95 % interval, or their number where there are fewer than {ENOUGH_FACTS}; "
        "supported: actions that had all of them; spans, all: share of the spans' tokens and of all tokens that was "
        "sent; failed: compressions that were due but failed; forgotten: failing calls repeated after their failure "
        "was dropped; "
        "floored: share of steps at which a method could not go as low as FOCUS; $: cost of the agent's calls per run, "
        f"{_prices(model)}.",
        style="dim",
        soft_wrap=True,
    )


def print_advice(
    console: Console, runs: Sequence[Run], records: Sequence[RunRecord], budgets: Mapping[str, int], model: str
) -> None:
    """Print, for each file of this replay, what its log is good for, and the recommendation."""
    for file, budget in budgets.items():
        own = [run for run in runs if run.file == file]
        ids = {run.id for run in own}
        walked = [one for one in records if one.file == file and one.run in ids and one.budget == budget]
        title = f": {printable(file)}" if len(budgets) > 1 else ""
        for head, lines in (("This log", log_in_words(own, budget)), ("Recommendation", advice(walked, model))):
            console.print()
            console.print(f"{head}{title}", style="bold", soft_wrap=True)
            for line in lines:
                console.print(printable(line), soft_wrap=True)


def _runs(line: Line[Any]) -> str:
    """Count the runs that recall is computed from, and all runs if there are more."""
    asked = sum(record.recall is not None for record in line.records.values())
    return str(asked) if asked == line.runs else f"{asked} of {line.runs}"


def _recall(line: Line[Any]) -> str:
    there, needed = facts_of(line)
    if not needed:
        return "-"
    return f"{there} of {needed} facts" if needed < ENOUGH_FACTS else with_interval("recall")(line)


def _supported(line: Line[Any]) -> str:
    if facts_of(line)[1] >= ENOUGH_FACTS:
        return share("whole")(line)
    steps = [step for record in line.records.values() for step in record.due if step.needed]
    return f"{sum(step.there == step.needed for step in steps)} of {len(steps)}" if steps else "-"


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
    """Print how many texts of the user or of system prompts some view lacked; it must be 0."""
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
