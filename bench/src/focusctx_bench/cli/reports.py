"""Options for report files, and the list of written files, shared by the commands that write reports."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

FORMS = ("markdown", "latex", "html")


def add_report_options(parser: argparse.ArgumentParser, folder: str) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help=folder)
    parser.add_argument("--format", choices=(*FORMS, "all"), default="all", help="of the document (default: all)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the files go (default: FOLDER/report)")


def forms_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    return FORMS if arguments.format == "all" else (arguments.format,)


def report_folder(arguments: argparse.Namespace) -> Path:
    folder: Path = arguments.out or arguments.folder / "report"
    return folder


def say_written(files: Iterable[Path], *, pictures: bool = True) -> int:
    """The files on standard output, and on standard error what is missing for pictures; the exit code."""
    from focusctx.cli.terminal import printable

    from ..report.write import can_draw

    for path in files:
        sys.stdout.write(f"{printable(str(path))}\n")
    if pictures and not can_draw():
        sys.stderr.write("focusctx: no pictures, they need an extra: pip install 'focusctx[bench]'\n")
    return 0
