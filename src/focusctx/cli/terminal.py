"""Text on a terminal, and wide tables on narrow ones: columns are printed in parts instead of being cut off.

Traces are untrusted: none of their control characters reaches the screen.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH = 140
"""Width of a line if there is no window."""
_BETWEEN = 2
"""Characters between two columns."""
_NAMES = 22
"""Characters after which names are folded, if there is no more room."""


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
