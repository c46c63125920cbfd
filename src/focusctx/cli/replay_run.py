"""`focusctx replay run`: go through recorded runs, step by step, under every method."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .interrupt import interruptible
from .options import DRAFTS
from .parsers import parser_for
from .problem import INCOMPLETE
from .replay_options import CHAT_ONLY, DATA, REPLAY_METHODS, USUAL_METHODS, add_data, add_methods, add_running

if TYPE_CHECKING:
    from ..replay.folder import ReplayFolder
    from ..replay.runner import Plan, ReplayTally
    from .parsers import Commands

_DESCRIPTION = f"""\
Walk through recorded runs under compression methods, as the agent would have
gone, and say how much of what each action needed stood in what it would have
been sent. Prints the table and writes records, of which `focusctx replay
report` makes pages and pictures (with focusctx-bench).

{DATA}{CHAT_ONLY}
It can be killed at any time: the same command goes on where it was. Further
methods, drafts and settings can be added to the same folder.
"""


def add_to(parts: Commands) -> None:
    epilog = f"{REPLAY_METHODS}\n{DRAFTS}"
    parser = parser_for(parts, "run", "walk through recorded runs under methods", _DESCRIPTION, epilog)
    add_data(parser)
    what = add_methods(parser, USUAL_METHODS, "offline")
    what.add_argument("--model", help="whose prices the agent's calls are reckoned at (default: gpt-4.1)")
    add_running(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from ..replay.runner import walk_all
    from .progress import progress
    from .replay_table import print_walks
    from .terminal import console_on

    arguments.draft = arguments.draft or "offline"
    plan, folder = prepared(arguments)
    with interruptible(), progress(sys.stderr) as watch:
        tally = walk_all(plan, folder.runs, watch)
    print_walks(console_on(sys.stdout), folder.runs, arguments.model)
    return finish(folder.path, tally)


def prepared(arguments: argparse.Namespace, more: tuple[str, ...] = ()) -> tuple[Plan, ReplayFolder]:
    """Return the plan and the folder for its records, and print the folder; `more` as for `plan_of`."""
    from ..replay.folder import ReplayFolder
    from .replay_options import folder_of, plan_of, recorded_of, runs_of
    from .terminal import printable

    runs = runs_of(arguments)
    plan = plan_of(arguments, runs, recorded_of(arguments, runs), more)
    folder = ReplayFolder(folder_of(arguments))
    folder.open(runs, sys.argv[1:])
    sys.stderr.write(f"records go to {printable(str(folder.path))}\n")
    return plan, folder


def finish(folder: Path, tally: ReplayTally) -> int:
    """Return the exit code, and report on standard error what is left to do."""
    from .terminal import printable

    say = sys.stderr.write
    say(f"`focusctx replay report {printable(str(folder))}` makes pages and pictures of the records\n")
    failed = sum(tally.failed.values())
    if failed:
        say(f"{failed} runs could not be replayed; the last: {printable(tally.last_problem)}\n")
    if tally.events_failed:
        say(f"warning: {tally.events_failed:,} of {tally.events:,} events failed: {printable(tally.why)}\n")
    if tally.unanswered:
        say(f"at {tally.unanswered:,} events a model gave no answer; the same command asks it again\n")
    return INCOMPLETE if failed or tally.unanswered else 0
