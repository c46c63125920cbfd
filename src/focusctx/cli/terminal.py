"""Text on a terminal. Traces are untrusted: none of their control characters reaches the screen."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH = 140
"""Width of a line if there is no window."""


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
