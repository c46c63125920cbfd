"""`focusctx replay points`: one event at each point of recorded runs, judged by all that came after."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from .options import DRAFTS
from .parsers import parser_for
from .replay_options import DATA, METHODS, add_data, add_methods, add_running

if TYPE_CHECKING:
    from .compress import Commands

_DESCRIPTION = f"""\
At points of recorded runs, compress the full history once under each method,
and say how much of what the rest of the run used is still there. A run's
points are where its history first passes δ, 2δ and 4δ; with --sketches, the
points that sketches were recorded for. `oracle`, a method that knows the
future, says how small a history could be that has all of it.

{DATA}
"""


def add_to(parts: Commands) -> None:
    parser = parser_for(parts, "points", "one event at each point, judged by the future", _DESCRIPTION, DRAFTS)
    add_data(parser)
    add_methods(parser, (*METHODS, "oracle"), "offline; none with --sketches")
    add_running(parser)
    parser.add_argument("--no-report", action="store_true", help="the table only: no pages and pictures")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from ..bench.replay.folder import ReplayFolder
    from ..bench.replay.runner import point_all
    from .bench_progress import progress
    from .replay_options import folder_of, plan_of, recorded_of, runs_of
    from .replay_run import finish
    from .replay_table import print_points
    from .terminal import console_on, printable

    arguments.draft = arguments.draft or (None if arguments.sketches else "offline")
    runs = runs_of(arguments)
    plan = plan_of(arguments, runs, recorded_of(arguments), more=("oracle",))
    folder = ReplayFolder(folder_of(arguments))
    folder.open(runs, sys.argv[1:])
    sys.stderr.write(f"records go to {printable(str(folder.path))}\n")
    with progress(sys.stderr) as watch:
        tally = point_all(plan, folder.points, watch)
    print_points(console_on(sys.stdout), folder.points)
    return finish(folder.path, tally, arguments)
