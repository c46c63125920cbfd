"""`focusctx replay points`: one event at each point of recorded runs, judged by all that came after."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from focusctx.cli.interrupt import interruptible
from focusctx.cli.options import DRAFTS
from focusctx.cli.parsers import parser_for
from focusctx.cli.replay_options import (
    CHAT_ONLY,
    DATA,
    REPLAY_METHODS,
    USUAL_METHODS,
    add_data,
    add_methods,
    add_running,
)

if TYPE_CHECKING:
    from focusctx.cli.parsers import Commands

_DESCRIPTION = f"""\
At points of recorded runs, compress the full history once under each method,
and say how much of what the rest of the run used is still there. A run's
points are where its history first passes δ, 2δ and 4δ; with --sketches, the
points that sketches were recorded for. `oracle`, a method that knows the
future, says how small a history could be that has all of it.

{DATA}{CHAT_ONLY}
It can be killed at any time: the same command goes on where it was.
"""
_ORACLE = "  oracle                       knows the future, as the bound of what a method can do\n"


def add_to(parts: Commands) -> None:
    epilog = f"{REPLAY_METHODS}{_ORACLE}\n{DRAFTS}"
    parser = parser_for(parts, "points", "one event at each point, judged by the future", _DESCRIPTION, epilog)
    add_data(parser)
    add_methods(parser, (*USUAL_METHODS, "oracle"), "offline; none with --sketches")
    add_running(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from focusctx.cli.progress import progress
    from focusctx.cli.replay_run import finish, prepared
    from focusctx.cli.replay_table import print_points
    from focusctx.cli.terminal import console_on
    from focusctx.replay.runner import point_all

    arguments.draft = arguments.draft or (None if arguments.sketches else "offline")
    plan, folder = prepared(arguments, more=("oracle",))
    with interruptible(), progress(sys.stderr) as watch:
        tally = point_all(plan, folder.points, watch)
    print_points(console_on(sys.stdout), folder.points)
    return finish(folder.path, tally)
