"""`focusctx replay report`: tables and pictures of what was replayed; and the options that all reports share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from focusctx.cli.command import parser_for
from focusctx.cli.output import printable

if TYPE_CHECKING:
    from focusctx.cli.command import Commands
    from focusctx.jobs.runner import Tally


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


_DESCRIPTION = """\
Make tables and pictures of everything that was replayed into FOLDER: walks,
points and a model's answers; recall against tokens left with all methods on
one picture, FOCUS against those that got its share of tokens, with intervals
by bootstrap over runs, and others' figures beside ours. Tables are written as
Markdown, HTML, LaTeX and CSV, pictures as PNG and SVG.
"""


def add_to(parts: Commands) -> None:
    parser = parser_for(parts, "report", "tables and pictures of what was replayed", _DESCRIPTION)
    add_report_options(parser, "where a replay wrote its records")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from ..replay.report.document import document
    from ..report.document import write_report

    made = document(arguments.folder)
    return say_written(write_report(made, report_folder(arguments), forms_of(arguments), tables=True))
