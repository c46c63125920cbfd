"""Text on a terminal. What traces hold is untrusted: no control character of theirs reaches the screen."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH = 140
"""Width of a line when no window says otherwise."""


def console_on(stream: TextIO) -> Console:
    """Colour on a terminal, plain text in a pipe; NO_COLOR, FORCE_COLOR and COLUMNS are honoured."""
    from rich.console import Console

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPE_WIDTH
    return console


def printable(text: str) -> str:
    """The text with escapes, bells and direction marks made visible; line ends stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text.expandtabs(4))


def short(text: str, limit: int) -> str:
    """The beginning of a text, on one line."""
    line = printable(" ".join(text[: 4 * limit].split()))
    return line if len(line) <= limit and len(text) <= 4 * limit else f"{line[: limit - 1]}…"
