"""`focusctx replay`: compress recorded runs as they would have been, and compare with what happened next.

`run` walks through them step by step, under every method. The other subcommands come with `focusctx-bench`.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from .interrupt import interruptible
from .options import DRAFTS
from .parsers import add_quiet, commands_of, note, parser_for
from .problem import INCOMPLETE
from .replay_options import CHAT_ONLY, DATA, REPLAY_METHODS, USUAL_METHODS, add_data, add_methods, add_running
from .research import add_research

if TYPE_CHECKING:
    from ..replay.job import ReplayTally
    from ..replay.record import ReplayFolder
    from .parsers import Commands

_DESCRIPTION = """\
Replay recorded runs: what would each method have kept of the past, and did the
future need what it dropped? Takes any JSONL of message lists, such as your own
logs.

with no key, no model and no download:
  focusctx replay run my-logs.jsonl --draft offline
"""
_RUN = f"""\
Walk through recorded runs step by step under compression methods, and measure
how much of what each action needed was still in the messages it would have
been sent. Prints a table and writes records, from which `focusctx replay
report` makes pages and pictures (with focusctx-bench).

{DATA}{CHAT_ONLY}
It can be stopped at any time: run the same command again to continue. More
methods, drafts and settings can be added to the same folder.
"""


def add_to(commands: Commands) -> None:
    summary = "what compression would have kept of your recorded runs, and what they needed"
    parts = commands_of(parser_for(commands, "replay", summary, _DESCRIPTION))
    _add_run(parts)
    add_research(parts, "replay")


def _add_run(parts: Commands) -> None:
    epilog = f"{REPLAY_METHODS}\n{DRAFTS}"
    parser = parser_for(parts, "run", "walk through recorded runs under methods", _RUN, epilog)
    add_data(parser)
    what = add_methods(parser, USUAL_METHODS, "offline")
    what.add_argument(
        "--model",
        help="the model at whose prices the agent's calls are counted (default: the log's own, else gpt-4.1)",
    )
    add_running(parser)
    add_quiet(parser, "the tables and the recommendation only")
    parser.set_defaults(run=run, model=None)


def run(arguments: argparse.Namespace) -> int:
    from ..replay.advice import model_of
    from ..replay.job import Plan
    from ..replay.record import run_records
    from ..replay.walk import walk_all
    from .progress import progress
    from .replay_options import budgets_of, folder_of, runs_of, settings_of
    from .replay_table import print_advice, print_walks
    from .terminal import console_on

    arguments.draft = arguments.draft or "offline"
    runs = runs_of(arguments)
    arguments.model = arguments.model or model_of(runs) or "gpt-4.1"
    settings = settings_of(arguments, runs)
    settings.check()
    plan = Plan(settings, runs, budgets_of(arguments, runs), arguments.engine, arguments.jobs)
    folder = folder_of(arguments)
    with interruptible(), folder.locked(), progress(sys.stderr, quiet=arguments.quiet) as watch:
        folder.begin(runs, sys.argv[1:])
        records = run_records(folder.path)
        tally = walk_all(plan, records, watch)
    console, walked = console_on(sys.stdout), list(records.latest().values())
    print_walks(console, walked, arguments.model)
    print_advice(console, runs, walked, plan.budgets, arguments.model)
    return finish(arguments, folder, tally)


def finish(arguments: argparse.Namespace, folder: ReplayFolder, tally: ReplayTally) -> int:
    """Return the exit code, and print on standard error what is left to do."""
    from .terminal import printable

    say = sys.stderr.write
    note(arguments, f"`focusctx replay report {printable(str(folder.path))}` makes pages and pictures of the records")
    if tally.failures:
        say(f"{tally.failures} runs could not be replayed; the last error: {printable(tally.last_problem)}\n")
    if tally.events_failed:
        say(f"warning: {tally.events_failed:,} of {tally.events:,} events failed: {printable(tally.why)}\n")
    if tally.unanswered:
        say(f"a model gave no answer at {tally.unanswered:,} events; run the same command again to retry\n")
    return INCOMPLETE if tally.failures or tally.unanswered else 0
