"""`focusctx replay points`: one event at each point of recorded runs, judged by all that came after."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from focusctx.cli.command import interruptible, parser_for
from focusctx.cli.options import DRAFTS
from focusctx.cli.replay import CHAT_ONLY, DATA, REPLAY_METHODS, USUAL_METHODS, add_data, add_methods, add_running

from .points_of import add_sketches, draft_name, sketches_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from focusctx.cli.command import Commands

    from ..replay.judge import PointRecord

_DESCRIPTION = f"""\
At points of recorded runs, compress the full history once under each method,
and measure how much of what the rest of the run used is still there. A run's
points are where its history first passes δ, 2δ and 4δ; with --sketches, the
points that sketches were recorded for. `oracle`, a method that knows the
future, shows how small a history with all of it could be.

{DATA}{CHAT_ONLY}
It can be stopped at any time: run the same command again to continue.
"""
_ORACLE = "  oracle                       knows the future, as the bound of what a method can do\n"


def add_to(parts: Commands) -> None:
    epilog = f"{REPLAY_METHODS}{_ORACLE}\n{DRAFTS}"
    parser = parser_for(parts, "points", "one event at each point, judged by the future", _DESCRIPTION, epilog)
    add_data(parser)
    add_methods(parser, (*USUAL_METHODS, "oracle"), "offline; none with --sketches")
    add_sketches(parser)
    add_running(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from focusctx.cli.output import console_on, progress
    from focusctx.cli.replay import budgets_of, finish, folder_of, runs_of, settings_fields
    from focusctx.replay.job import Plan

    from ..replay.judge import PointSettings, judge_all, point_records

    arguments.draft = arguments.draft or (None if arguments.sketches else "offline")
    runs = runs_of(arguments)
    recorded = sketches_in(arguments.sketches, runs)
    settings = PointSettings(**settings_fields(arguments, runs), recorded=draft_name(recorded))
    settings.check(more=("oracle",))
    plan = Plan(settings, runs, budgets_of(arguments, runs), arguments.engine, arguments.jobs)
    folder = folder_of(arguments)
    with interruptible(), folder.locked(), progress(sys.stderr) as watch:
        folder.begin(runs, sys.argv[1:])
        records = point_records(folder.path)
        tally = judge_all(plan, records, watch, recorded)
    _print(console_on(sys.stdout), list(records.latest().values()))
    return finish(arguments, folder, tally)


def _print(console: Console, records: Sequence[PointRecord]) -> None:
    from focusctx.cli.replay_table import Columns, print_lines, print_words_lost, share, with_interval
    from focusctx.replay.lines import by_file

    columns: Columns = {
        "runs": lambda line: str(line.runs),
        "points": lambda line: str(len(line.records)),
        "recall": with_interval("recall"),
        "all there": with_interval("whole"),
        "spans": share("span_share"),
        "all": share("history_share"),
        "failed": lambda line: str(line.total("failures")),
        "floored": share("floored_share", 2),
    }
    files = by_file(records)
    for file, some in files.items():
        print_lines(console, file, some, columns)
    if len(files) > 1:
        print_lines(console, "all files", records, columns)
    print_words_lost(console, records)
    console.print(
        "recall: of the facts that later actions use and only past spans gave, the share that is left, with its 95 % "
        "interval; all there: points with all of them; spans, all: share of the tokens of spans and of the history "
        "that is left; floored: share of points at which a comparator could not go as low as FOCUS.",
        style="dim",
        soft_wrap=True,
    )
