"""Progress of a job: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from ..jobs.runner import Tally
from .terminal import console_on

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

_EVERY = 10.0
"""Seconds between two lines where there is no terminal."""


@contextmanager
def progress(stream: TextIO, *, quiet: bool = False) -> Iterator[Callable[[Tally], None]]:
    if quiet:
        yield lambda _: None
        return
    console = console_on(stream)
    if not console.is_terminal:
        yield _Lines(stream)
        return
    with _bars(console) as watch:
        yield watch


class _Lines:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = float("-inf")

    def __call__(self, tally: Tally) -> None:
        now = time.monotonic()
        if now - self._last < _EVERY and tally.left:
            return
        self._last = now
        self._stream.write(
            f"{sum(tally.planned.values()) - tally.left:,}/{sum(tally.planned.values()):,} {status_of(tally)}\n"
        )
        self._stream.flush()


@contextmanager
def _bars(console: Console) -> Iterator[Callable[[Tally], None]]:
    """Show one bar per benchmark, with rate and cost behind the last."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bars: dict[str, TaskID] = {}
    with Progress(*columns, TextColumn("{task.fields[status]}"), console=console) as shown:

        def watch(tally: Tally) -> None:
            for name, planned in tally.planned.items():
                if name not in bars:
                    bars[name] = shown.add_task(name, total=planned, status="")
                done = tally.before[name] + tally.done[name]
                last = name == list(tally.planned)[-1]
                shown.update(bars[name], completed=done, status=status_of(tally) if last else "")

        yield watch


def status_of(tally: Tally) -> str:
    """Return rate, cost, time left and failures: `tasks, 12.3/s, $0.42, 2 min left, 1 failed`."""
    parts = ["tasks", _rate(tally.rate)]
    if tally.spending.total or tally.spending.limit is not None:
        limit = "" if tally.spending.limit is None else f" of ${tally.spending.limit:,.2f}"
        parts.append(f"${tally.spending.total:,.2f}{limit}{' and more' if tally.spending.unpriced else ''}")
    if tally.rate and tally.left:
        parts.append(f"{_duration(tally.left / tally.rate)} left")
    if failed := sum(tally.failed.values()):
        parts.append(f"{failed:,} failed")
    return ", ".join(part for part in parts if part)


def _rate(rate: float) -> str:
    if not rate:
        return ""
    return f"{rate:.1f}/s" if rate >= 1 else f"{60 * rate:.1f}/min"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
