"""The output of commands: files whole or not at all, text and wide tables on a terminal, and the progress of a job.

Traces are untrusted: none of their control characters reaches the screen.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO

from .command import Problem

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from ..jobs.runner import Tally

_PIPE_WIDTH = 140
"""Width of a line if there is no window."""
_BETWEEN = 2
"""Characters between two columns."""
_NAMES = 22
"""Characters after which names are folded, if there is no more room."""
_EVERY = 10.0
"""Seconds between two lines where there is no terminal."""


def names_file(target: str | None) -> bool:
    """True if --out names a file; no --out, or `-`, means standard output."""
    return target not in (None, "-")


@contextmanager
def writing(target: str | None) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces the target on success, or standard output.

    It is opened before the work begins, so that an unwritable path is found before the draft is paid for.
    """
    if target is None or target == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(target).resolve()  # resolve a link, so that the link itself stays
    if path.is_dir():
        raise Problem(f"{target} is a folder; give --out the name of a file")
    if path.exists() and not path.is_file():  # /dev/null, a pipe: nothing to replace
        with _opened(path, "wb", target) as file:
            yield file
        return
    with _replacing(path, target) as file:
        yield file


def write_line(file: IO[bytes], text: str) -> None:
    """Write the text and a line end. A lone surrogate, legal in JSON, becomes the escape it was written as."""
    file.write(text.encode("utf-8", "backslashreplace") + b"\n")


@contextmanager
def _replacing(path: Path, target: str) -> Iterator[IO[bytes]]:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    file = _opened(beside, "xb", target)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            beside.chmod(path.stat().st_mode)
        beside.replace(path)
    except BaseException:  # also on Ctrl-C: leave no partial file behind
        beside.unlink(missing_ok=True)
        raise


def _opened(path: Path, mode: str, target: str) -> IO[bytes]:
    try:
        file: IO[bytes] = path.open(mode)
    except OSError as error:
        raise Problem(f"{target} cannot be written: {error.strerror}") from error
    return file


def console_on(stream: TextIO) -> Console:
    """Return a console: colour on a terminal, plain text in a pipe; honours NO_COLOR, FORCE_COLOR and COLUMNS.

    Rich alone would still write bold and dim text under NO_COLOR.
    """
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR"))
    console = Console(file=stream, highlight=False, markup=False, emoji=False, color_system=None if plain else "auto")
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPE_WIDTH
    return console


def printable(text: str) -> str:
    """Replace escapes, bells and direction marks with a visible character; line ends stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text.expandtabs(4))


def short(text: str, limit: int) -> str:
    """Return the beginning of a text, on one line."""
    line = printable(" ".join(text[: 4 * limit].split()))
    return line if len(line) <= limit and len(text) <= 4 * limit else f"{line[: limit - 1]}…"


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the characters that each column takes, with what separates it from the next. The head is a row, too.

    The first column holds names, which may be folded when they are long.
    """
    first, *others = [max(len(row[place]) for row in rows) + _BETWEEN for place in range(len(rows[0]))]
    return [min(first, _NAMES), *others]


def parts_that_fit(widths: Sequence[int], room: int) -> list[list[int]]:
    """Return the places of the columns of each part; every part begins with the first column, the rows' names."""
    parts: list[list[int]] = [[0]]
    for place, width in enumerate(widths[1:], 1):
        if len(parts[-1]) > 1 and sum(widths[one] for one in parts[-1]) + width > room:
            parts.append([0])
        parts[-1].append(place)
    return parts


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
