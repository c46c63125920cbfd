"""Shared by the scripts here: recorded runs, Markdown tables, bars, and pages that are printed and written."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
"""The folder with the recorded runs."""


def options(description: str) -> argparse.ArgumentParser:
    """Return a parser with the option `--out`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the page there too")
    return parser


def publish(make: Callable[[], str], out: Path | None) -> int:
    """Print a page, and write it to a file. Returns the exit status: 2 where there are no recorded runs."""
    if not are_there(SHARED):
        return 2
    text = make()
    print(text)
    if out:
        out.write_text(text, encoding="utf-8")
    return 0


def are_there(*paths: Path) -> bool:
    """Return True if all these recorded files exist; say on standard error which one is missing."""
    missing = [path for path in paths if not path.exists()]
    if missing:
        print(f"no recorded runs at {missing[0]}", file=sys.stderr)
    return not missing


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]


def verdict(met: bool) -> str:
    return "met" if met else "**missed**"


def quiet() -> None:
    """Silence warnings in a process that replays runs."""
    logging.disable(logging.WARNING)
