"""`focusctx replay agree`: a model's next action under the full history, against under compressed ones."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from focusctx.cli.command import INCOMPLETE, Problem, check_positive, interruptible, parser_for
from focusctx.cli.options import DRAFTS
from focusctx.cli.replay import DATA, REPLAY_METHODS, add_data, add_methods

from .replay import (
    add_number,
    add_sketches,
    draft_name,
    points_over_budget,
    points_with_sketches,
    say_failures,
    sketches_in,
)

if TYPE_CHECKING:
    from focusctx.cli.command import Commands
    from focusctx.jobs.records import RecordFile
    from focusctx.replay.methods import ReplaySettings
    from focusctx.replay.runs import Run

    from ..protocols import Model
    from ..replay.agreement.answers import Answer, View
    from ..replay.points import Point
    from ..replay.sketches import PointSketches

_DESCRIPTION = f"""\
At points of recorded runs, ask a model for the agent's next turn: once with
the full history, once more with it (how far the model agrees with itself), and
once with what each method leaves. The table says how often it then does the
same: the very same action, the same tool, and how much of the arguments. A
run's points are where its history first passes δ, 2δ and 4δ; with --sketches,
the points that sketches were recorded for; of both those at which the
recorded agent acted.

{DATA}
Only OpenAI chat runs are used. Tools are those that the runs of a file call.
Answers are kept: run the same command again to continue.
"""
_METHODS = ("focus",)
_SKETCHED = 64
"""Points that a draft sketches for at once, where one is asked."""


def add_to(parts: Commands) -> None:
    summary = "a model's next action, full history against compressed"
    parser = parser_for(parts, "agree", summary, _DESCRIPTION, f"{REPLAY_METHODS}\n{DRAFTS}")
    add_data(parser)
    asked = parser.add_argument_group("which model and points")
    asked.add_argument(
        "--agent", required=True, metavar="MODEL", help="the model to ask for the next action; named like a draft"
    )
    add_number(asked, "--points", 300, "how many points, over all files")
    add_number(asked, "--longest", 12288, "skip points with a longer history, system prompt excluded", "TOKENS")
    add_number(asked, "--tokens", 128, "maximum tokens of a local model's answer")
    add_number(asked, "--at-once", 16, "requests at a time to a server")
    add_methods(parser, _METHODS, "offline; none with --sketches")
    add_sketches(parser)
    how = parser.add_argument_group("how to run")
    how.add_argument(
        "--out", type=Path, metavar="FOLDER", help="folder for answers (default: one per data set in focusctx-replay)"
    )
    add_number(how, "--deadline", 600.0, "time limit for the sketches of a point", "SECONDS")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from focusctx.cli.output import progress
    from focusctx.cli.replay import folder_of, runs_of, settings_fields

    from ..replay.agreement.answers import answer_file, ask_all
    from ..replay.agreement.local import LocalModel, tools_by_file
    from ..replay.judge import PointSettings

    check_positive(arguments, "points", "longest", "tokens", "at_once")
    arguments.draft = arguments.draft or (None if arguments.sketches else "offline")
    runs = [run for run in runs_of(arguments) if run.format == "chat_completions"]
    if not runs:
        raise Problem("the data has no OpenAI chat runs, the only format that models can be asked in")
    recorded = sketches_in(arguments.sketches, runs)
    settings = PointSettings(**settings_fields(arguments, runs), recorded=draft_name(recorded))
    settings.check()
    model = _model(arguments)
    points = _points(arguments, runs, recorded)
    folder = folder_of(arguments)
    sys.stderr.write(f"{len(points)} points\n")
    with interruptible(), folder.locked():
        folder.begin(runs, sys.argv[1:])
        answers = answer_file(folder.path)
        views = _views(settings, points, recorded)
        # A model that runs here decides by itself how many prompts are one batch.
        at_once = max(1, len(views)) if isinstance(model, LocalModel) else arguments.at_once
        tools = tools_by_file(runs)
        with progress(sys.stderr) as watch:
            tally = ask_all(model, views, answers, settings=settings, tools=tools, at_once=at_once, watch=watch)
    say_failures(tally)
    _print(answers, model.name)
    return INCOMPLETE if tally.failures else 0


def _model(arguments: argparse.Namespace) -> Model:
    """A model that runs here answers in text; one behind a server has tools of its own."""
    from focusctx.drafts.registry import draft_from

    from ..models.served import model_from
    from ..replay.agreement.local import LocalModel, runs_here

    if runs_here(arguments.agent):
        return LocalModel(draft_from(arguments.agent), tokens=arguments.tokens)
    return model_from(arguments.agent)


def _points(arguments: argparse.Namespace, runs: list[Run], recorded: list[PointSketches]) -> list[Point]:
    from ..replay.agreement.answers import sample

    found = points_with_sketches(runs, recorded) if recorded else points_over_budget(arguments, runs)
    points = sample(found, arguments.points, arguments.longest)
    if not points:
        raise Problem(f"of {len(found)} histories over δ, none within --longest {arguments.longest} led to an action")
    return points


def _views(settings: ReplaySettings, points: list[Point], recorded: list[PointSketches]) -> list[View]:
    from functools import partial

    from focusctx.cli.output import progress
    from focusctx.jobs.engines import InProcess
    from focusctx.jobs.runner import Runner
    from focusctx.replay.methods import Methods

    from ..replay.agreement.answers import views_at

    found: list[View] = []
    work = partial(views_at, Methods(settings), recorded)
    with progress(sys.stderr) as watch:
        runner = Runner(InProcess(_SKETCHED), work, found.extend, part=lambda _: "views", watch=watch)
        say_failures(runner.run_all(points))
    order = {point.place: number for number, point in enumerate(points)}
    return sorted(found, key=lambda view: order[view.point.place])


def _print(answers: RecordFile[Answer], model: str) -> None:
    from focusctx.cli.output import console_on

    from ..replay.agreement.compare import agreement_table
    from .tables import print_table

    table = agreement_table([answer for answer in answers if answer.model == model])
    if table is None:
        sys.stderr.write("no point yet at which every method has an answer\n")
        return
    console = console_on(sys.stdout)
    print_table(console, table)
    console.print(table.note, style="dim", soft_wrap=True)
