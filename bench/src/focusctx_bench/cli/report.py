"""`focusctx replay report`: tables and pictures of what was replayed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from focusctx.cli.parsers import parser_for

from .reports import add_report_options, forms_of, report_folder, say_written

if TYPE_CHECKING:
    from focusctx.cli.parsers import Commands

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
    from ..report.write import write_report

    made = document(arguments.folder)
    return say_written(write_report(made, report_folder(arguments), forms_of(arguments), tables=True))
