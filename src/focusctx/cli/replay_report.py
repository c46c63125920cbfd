"""`focusctx replay report`: tables and pictures of what was replayed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .parsers import parser_for

if TYPE_CHECKING:
    from .compress import Commands

_DESCRIPTION = """\
Make tables and pictures of everything that was replayed into FOLDER: walks,
points and a model's answers; recall against tokens left with all methods on
one picture, FOCUS against those that got its share of tokens, with intervals
by bootstrap over runs, and others' figures beside ours. Tables are written as
Markdown, HTML, LaTeX and CSV, pictures as PNG and SVG; pictures need
focusctx[bench].
"""


def add_to(parts: Commands) -> None:
    parser = parser_for(parts, "report", "tables and pictures of what was replayed", _DESCRIPTION)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where a replay wrote its records")
    parser.add_argument("--format", choices=("markdown", "latex", "html", "all"), default="all")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the files go (default: FOLDER/report)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from ..bench.replay.report.document import document
    from ..bench.replay.report.write import write
    from ..bench.report.write import FORMS, can_draw
    from .terminal import printable

    forms = tuple(FORMS) if arguments.format == "all" else (arguments.format,)
    for path in write(document(arguments.folder), arguments.out or arguments.folder / "report", forms):
        sys.stdout.write(f"{printable(str(path))}\n")
    if not can_draw():
        sys.stderr.write("focusctx: no pictures, they need an extra: pip install 'focusctx[bench]'\n")
    return 0
