"""`focusctx replay run`: recorded runs, step by step, under every method."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .options import DRAFTS
from .parsers import parser_for
from .replay_options import DATA, METHODS, add_data, add_methods, add_running

if TYPE_CHECKING:
    from ..bench.runner import Tally
    from .compress import Commands

_DESCRIPTION = f"""\
Walk through recorded runs under compression methods, as the agent would have
gone, and say how much of what each action needed stood in what it would have
been sent. Prints the table and writes records; tables and pictures of them go
beside the records.

{DATA}
It can be killed at any time: the same command goes on where it was. Further
methods, drafts and settings can be added to the same folder.
"""

_INCOMPLETE = 3


def add_to(parts: Commands) -> None:
    parser = parser_for(parts, "run", "walk through recorded runs under methods", _DESCRIPTION, DRAFTS)
    add_data(parser)
    add_methods(parser, METHODS, "offline")
    add_running(parser)
    parser.add_argument("--no-report", action="store_true", help="the table only: no pages and pictures")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from ..bench.replay.folder import ReplayFolder
    from ..bench.replay.runner import walk_all
    from .bench_progress import progress
    from .replay_options import folder_of, plan_of, recorded_of, runs_of
    from .replay_table import print_walks
    from .terminal import console_on, printable

    arguments.draft = arguments.draft or "offline"
    runs = runs_of(arguments)
    plan = plan_of(arguments, runs, recorded_of(arguments))
    folder = ReplayFolder(folder_of(arguments))
    folder.open(runs, sys.argv[1:])
    sys.stderr.write(f"records go to {printable(str(folder.path))}\n")
    with progress(sys.stderr) as watch:
        tally = walk_all(plan, folder.runs, watch)
    print_walks(console_on(sys.stdout), folder.runs)
    return finish(folder.path, tally, arguments)


def finish(folder: Path, tally: Tally, arguments: argparse.Namespace) -> int:
    """The report beside the records; the exit code, and on standard error why there is more to do."""
    from .terminal import printable

    say = sys.stderr.write
    if not arguments.no_report:
        from ..bench.replay.report.document import document
        from ..bench.replay.report.write import write
        from ..bench.report.write import can_draw

        write(document(folder), folder / "report", ("html", "markdown"))
        say(f"tables{' and pictures' if can_draw() else ''}: {printable(str(folder / 'report' / 'report.html'))}\n")
        if not can_draw():
            say("pictures need an extra: pip install 'focusctx[bench]'\n")
    failed = sum(tally.failed.values())
    if failed:
        say(f"{failed} runs could not be replayed; the last: {printable(tally.last_problem)}\n")
    return _INCOMPLETE if failed else 0
