"""`focusctx bench live`: one table and a picture of live runs, arm by arm."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from focusctx.cli.parsers import parser_for

_ABOUT = """\
Compare live runs: the benchmark's score beside tokens per request, deeds done
twice, look-ups repeated and the like, paired by task, with intervals. Writes
table.md, a picture per benchmark, and the numbers of every run (runs.csv,
runs.jsonl).

  focusctx bench live full=out/full focus=out/focus summary=out/summary --out docs/results/live
"""


def add_live(parts: Any) -> None:
    parser = parser_for(parts, "live", "compare live runs, arm by arm", _ABOUT)
    parser.add_argument("folders", nargs="+", metavar="[NAME=]FOLDER", help="of a run; NAME is how the arm is called")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the files go")
    parser.add_argument("--reference", metavar="NAME", help="the arm to compare with (default: full or none)")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from ..live import read_arms, write
    from .report import say_written

    return say_written(write(read_arms(arguments.folders), arguments.out, arguments.reference))
