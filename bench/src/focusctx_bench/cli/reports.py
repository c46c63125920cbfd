"""Options of commands that write a report, and the lines that say what was written and what failed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from focusctx.cli.terminal import printable

if TYPE_CHECKING:
    from focusctx.jobs.tally import Tally

FORMS = ("markdown", "latex", "html")


def add_report_options(parser: argparse.ArgumentParser, folder: str) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help=folder)
    parser.add_argument("--format", choices=(*FORMS, "all"), default="all", help="of the document (default: all)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder for the files (default: FOLDER/report)")


def forms_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    return FORMS if arguments.format == "all" else (arguments.format,)


def report_folder(arguments: argparse.Namespace) -> Path:
    folder: Path = arguments.out or arguments.folder / "report"
    return folder


def say_written(files: Iterable[Path]) -> int:
    """Name the written files on standard output; return the exit code."""
    for path in files:
        sys.stdout.write(f"{printable(str(path))}\n")
    return 0


def say_failures(tally: Tally) -> None:
    """Say on standard error how many items failed, and why the last one did."""
    if tally.failures:
        sys.stderr.write(f"{tally.failures:,} failed; the last error: {printable(tally.last_problem)}\n")
