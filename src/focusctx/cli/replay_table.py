"""The results of a replay as tables on the terminal: one per file, with one line per method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from ..prices import price_of
from ..replay import measures
from ..replay.lines import Line, Measure, by_file, lines_of
from ..replay.record import PointRecord, RunRecord
from .terminal import printable

if TYPE_CHECKING:
    from rich.console import Console

R = TypeVar("R", RunRecord, PointRecord)
Columns: TypeAlias = Mapping[str, Callable[[Line[R]], str]]


def print_walks(console: Console, records: Iterable[RunRecord], model: str) -> None:
    """Print the table of walks; `model` is the one whose prices apply to calls."""
    columns: Columns[RunRecord] = {
        "runs": lambda line: str(line.runs),
        "recall": _with_interval(measures.recall),
        "supported": _share(measures.whole),
        "spans": _share(measures.span_share),
        "all": _share(measures.history_share),
        "events": _number(measures.events, 1),
        "failed": lambda line: str(sum(record.failures for record in line.records.values())),
        "forgotten": _forgotten,
        "floored": _share(measures.at_its_least, 2),
        "peak": _number(measures.peak, 0),
        "dep. M": _number(lambda record: record.dependency / 1e6, 1),
        "$": _number(measures.cost, 3),
        "$ cached": _number(measures.cost_cached, 3),
    }
    every = list(records)
    for file, some in by_file(every).items():
        _print(console, f"{file}, δ {', '.join(map(str, sorted({one.budget for one in some})))}", some, columns)
    _lost(console, every)
    console.print(
        "recall: of the facts that an action needed, the share in its view, with its 95 % interval; supported: "
        "actions that had all; spans, all: share of the tokens of spans and of the history that was sent; failed: "
        "compressions that were due and failed; forgotten: repeated failing calls whose failure was gone; floored: "
        "share of steps at which a comparator could not go as low as FOCUS; $: the agent's calls, a run, "
        f"{_prices(model)}.",
        style="dim",
        soft_wrap=True,
    )


def print_points(console: Console, records: Iterable[PointRecord]) -> None:
    columns: Columns[PointRecord] = {
        "runs": lambda line: str(line.runs),
        "points": lambda line: str(len(line.records)),
        "recall": _with_interval(measures.recall),
        "all there": _with_interval(measures.whole),
        "spans": _share(measures.span_share),
        "all": _share(measures.history_share),
        "failed": lambda line: str(sum(record.failure is not None for record in line.records.values())),
        "floored": _share(measures.at_its_least, 2),
    }
    every = list(records)
    files = by_file(every)
    for file, some in files.items():
        _print(console, file, some, columns)
    if len(files) > 1:
        _print(console, "all files", every, columns)
    _lost(console, every)
    console.print(
        "recall: of the facts that later actions use and only past spans gave, the share that is left, with its 95 % "
        "interval; all there: points with all of them; spans, all: share of the tokens of spans and of the history "
        "that is left; floored: share of points at which a comparator could not go as low as FOCUS.",
        style="dim",
        soft_wrap=True,
    )


def _print(console: Console, title: str, records: Sequence[R], columns: Columns[R]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0),
        title=printable(title), title_justify="left",
    )  # fmt: skip
    table.add_column("method", overflow="fold")
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for line in lines_of(records, budgets=False):
        table.add_row(printable(line.name), *(figure(line) for figure in columns.values()))
    console.print(table)
    console.print()


def _lost(console: Console, records: Sequence[RunRecord | PointRecord]) -> None:
    """Print how many of the user's words some view lacked; there must be none."""
    lost = sum(record.words_lost for record in records)
    console.print(f"words of the user or of system prompts lost: {lost}", style="bold red" if lost else "")


def _prices(model: str) -> str:
    if price_of(model) is None:
        return f"which {printable(model)} has no known price for (--model)"
    return f"at {printable(model)}'s prices (--model; runs walked earlier, at those of that time)"


def _forgotten(line: Line[RunRecord]) -> str:
    records = line.records.values()
    return f"{sum(record.forgotten for record in records)}/{sum(record.repeated for record in records)}"


def _with_interval(measure: Measure[R]) -> Callable[[Line[R]], str]:
    def figure(line: Line[R]) -> str:
        found = line.mean(measure)
        return f"{_short(found.mean)} [{_short(found.low, 2)} {_short(found.high, 2)}]" if found else "-"

    return figure


def _share(measure: Measure[R], digits: int = 3) -> Callable[[Line[R]], str]:
    def figure(line: Line[R]) -> str:
        found = line.mean(measure)
        return _short(found.mean, digits) if found else "-"

    return figure


def _number(measure: Measure[R], digits: int) -> Callable[[Line[R]], str]:
    def figure(line: Line[R]) -> str:
        found = line.mean(measure)
        return f"{found.mean:.{digits}f}" if found else "-"

    return figure


def _short(share: float, digits: int = 3) -> str:
    return f"{share:.{digits}f}".removeprefix("0")
