"""Options of `focusctx replay points`, `record`, `report`, `agree`, `study` and `ablate`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from focusctx.cli.command import commands_of, parser_for
from focusctx.cli.options import DRAFTS, add_threshold
from focusctx.cli.replay import (
    CHAT_ONLY,
    DATA,
    REPLAY_METHODS,
    USUAL_METHODS,
    add_data,
    add_methods,
    add_running,
)

from . import later

if TYPE_CHECKING:
    from focusctx.cli.command import Commands

Adding: TypeAlias = argparse.ArgumentParser | argparse._ArgumentGroup
FORMS = ("markdown", "latex", "html")
PASSES = ("sketches", "likelihoods", "report")
_POINTS = f"""\
At points of recorded runs, compress the full history once under each method,
and measure how much of what the rest of the run used is still there. A run's
points are where its history first passes δ, 2δ and 4δ; with --sketches, the
points that sketches were recorded for. `oracle`, a method that knows the
future, shows how small a history with all of it could be.

{DATA}{CHAT_ONLY}
It can be stopped at any time: run the same command again to continue.
"""
_ORACLE = "  oracle                       knows the future, as the bound of what a method can do\n"
_RECORD = f"""\
Ask a draft for N sketches at every point of recorded runs, many points at
a time, and write them to FILE, one line per point. `points`, `study` and others
then play them back without a model. Points that FILE has are not asked about
again: run the same command again to continue.

{DATA}
A run's points are where its history first passes δ, 2δ and 4δ.
"""
_REPORT = """\
Make tables and pictures of everything that was replayed into FOLDER: walks,
points and a model's answers; recall against tokens left with all methods on
one picture, FOCUS against those that got its share of tokens, with intervals
by bootstrap over runs, and others' figures beside ours. Tables are written as
Markdown, HTML, LaTeX and CSV, pictures as PNG and SVG.
"""
_AGREE = f"""\
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
_STUDY = f"""\
How many sketches are enough, and do they say what the future needs? Three
passes, each added to files in the folder, so that a stopped one can continue:

  sketches     the draft is asked for very many sketches at each event
  likelihoods  how likely the model finds possible next actions, its own plans
               and what the agent did, with each span left out in turn, for a
               model whose probabilities can be read (transformers:…); for any
               other, --samples N choices among those actions stand for them
  report       tables and figures of what is there; needs no model

{DATA}"""
_STUDY_EPILOG = f"""\
{DRAFTS}
from recorded sketches, with no model:
  focusctx replay study runs/ --sketches sketches.jsonl --out study
with an API model, divergences by sampling as in the paper:
  focusctx replay study runs/ --draft openai:MODEL --samples 100 --out study
on a GPU:
  focusctx replay study runs/ --draft transformers:MODEL --rollouts 128 --out study
"""
_ABLATE = """\
What each setting is worth. `settings` and `budgets` need no model: they read
recorded sketches, and the records of replays at several budgets.
"""
_SETTINGS = f"""\
N, τ, FOCUS-O against FOCUS-D, and every switch beyond the paper, on top of the
paper's algorithm and off the shipped default: each at every point that has
recorded sketches.

{DATA}"""
_BUDGETS = """\
δ: events per step, and recall against peak, from runs that `focusctx replay
run` has walked at several budgets into one folder:

  focusctx replay run runs.jsonl --budget 2048 --out folder
  focusctx replay run runs.jsonl --budget 8192 --out folder
"""
_ROLLOUTS = f"""\
N sketches one after the other, N requests at once, or one request for N: the
requests, the input tokens paid and the time that each way takes, with a live
draft, one event at a time.

{DATA}"""


def add_points(parts: Commands) -> None:
    epilog = f"{REPLAY_METHODS}{_ORACLE}\n{DRAFTS}"
    parser = parser_for(parts, "points", "one event at each point, judged by the future", _POINTS, epilog)
    add_data(parser)
    add_methods(parser, (*USUAL_METHODS, "oracle"), "offline; none with --sketches")
    _add_sketches(parser)
    add_running(parser)
    parser.set_defaults(run=later("points", "points"))


def add_record(parts: Commands) -> None:
    parser = parser_for(parts, "record", "ask a draft for sketches at every point", _RECORD, DRAFTS)
    add_data(parser)
    group = parser.add_argument_group("what to ask")
    add = group.add_argument
    add("--draft", required=True, help="the model that sketches plans, see below")
    add("--out", type=Path, required=True, metavar="FILE", help="file for the sketches")
    add("--at", type=Path, metavar="FILE", help="only the points of these recorded sketches")
    _add_number(group, "--rollouts", 3, "sketches per point")
    _add_sketch_tokens(group)
    _add_number(group, "--every", 1, "only every Nth point")
    _add_number(group, "--at-once", 256, "points asked about at a time")
    _add_number(group, "--deadline", 1800.0, "time limit for the sketches of a point", "SECONDS")
    parser.set_defaults(run=later("points", "record"))


def add_report(parts: Commands) -> None:
    parser = parser_for(parts, "report", "tables and pictures of what was replayed", _REPORT)
    add_report_options(parser, "where a replay wrote its records")
    parser.set_defaults(run=later("points", "report"))


def add_report_options(parser: argparse.ArgumentParser, folder: str) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help=folder)
    parser.add_argument("--format", choices=(*FORMS, "all"), default="all", help="of the document (default: all)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder for the files (default: FOLDER/report)")


def add_agree(parts: Commands) -> None:
    summary = "a model's next action, full history against compressed"
    parser = parser_for(parts, "agree", summary, _AGREE, f"{REPLAY_METHODS}\n{DRAFTS}")
    add_data(parser)
    asked = parser.add_argument_group("which model and points")
    asked.add_argument(
        "--agent", required=True, metavar="MODEL", help="the model to ask for the next action; named like a draft"
    )
    _add_number(asked, "--points", 300, "how many points, over all files")
    _add_number(asked, "--longest", 12288, "skip points with a longer history, system prompt excluded", "TOKENS")
    _add_number(asked, "--tokens", 128, "maximum tokens of a local model's answer")
    _add_number(asked, "--at-once", 16, "requests at a time to a server")
    add_methods(parser, ("focus",), "offline; none with --sketches")
    _add_sketches(parser)
    how = parser.add_argument_group("how to run")
    how.add_argument(
        "--out", type=Path, metavar="FOLDER", help="folder for answers (default: one per data set in focusctx-replay)"
    )
    _add_number(how, "--deadline", 600.0, "time limit for the sketches of a point", "SECONDS")
    parser.set_defaults(run=later("points", "agree"))


def add_study(parts: Commands) -> None:
    summary = "the paper's estimator study: convergence, divergences, coverage"
    parser = parser_for(parts, "study", summary, _STUDY, _STUDY_EPILOG)
    add_data(parser)
    group = parser.add_argument_group("what to study")
    what = group.add_argument
    what("--draft", help="the model that sketches plans, see below")
    what("--sketches", type=Path, metavar="FILE", help="recorded sketches and their events, in place of a draft's")
    what("--likelihoods", type=Path, metavar="FILE", help="recorded likelihoods (default: those in the folder)")
    what("--only", choices=PASSES, metavar="PASS", help="just one pass: sketches, likelihoods or report")
    _add_events(group, 30)
    _add_number(group, "--rollouts", 100, "sketches at each event")
    add_threshold(group)
    what(
        "--samples",
        type=int,
        metavar="N",
        help="choices sampled with all spans and without each, where probabilities cannot be read; with s spans that "
        "is N·(s + 1) answers an event (default: none)",
    )
    how = parser.add_argument_group("how to run")
    _add_out(how, "focusctx-study", "focusctx-study")
    _add_number(how, "--at-once", 8, "events that are sketched at a time")
    parser.set_defaults(run=later("study", "study"))


def add_ablate(parts: Commands) -> None:
    summary = "what each setting is worth: N, τ, δ, every switch"
    kinds = commands_of(parser_for(parts, "ablate", summary, _ABLATE))

    settings = parser_for(kinds, "settings", "N, τ and every switch, from recorded sketches", _SETTINGS)
    add_data(settings, budget=False)
    settings.add_argument("--sketches", type=Path, metavar="FILE", required=True, help="recorded sketches")
    settings.add_argument("--jobs", type=int, metavar="N", help="processes (default: one per core)")

    budgets = parser_for(kinds, "budgets", "δ, from replays at several budgets", _BUDGETS)
    budgets.add_argument("folder", type=Path, metavar="FOLDER", help="with the records of the replays")

    rollouts = parser_for(kinds, "rollouts", "one after the other, at once, or one request", _ROLLOUTS, DRAFTS)
    add_data(rollouts)
    rollouts.add_argument("--draft", required=True, help="the model that sketches plans, see below")
    _add_number(rollouts, "--rollouts", 3, "sketches per event")
    _add_events(rollouts, 10)

    for name, parser in (("settings", settings), ("budgets", budgets), ("rollouts", rollouts)):
        _add_out(parser, f"focusctx-ablations/{name}", "in focusctx-ablations")
        parser.set_defaults(run=later("study", name))


def _add_number(group: Adding, name: str, default: float, help: str, metavar: str = "N") -> None:
    """Add an option whose value is a number like its default, which the help names."""
    group.add_argument(
        name, type=type(default), metavar=metavar, default=default, help=f"{help} (default: {default:g})"
    )


def _add_events(group: Adding, default: int) -> None:
    """Add the options that choose points and say how to sketch there."""
    _add_number(group, "--events", default, "number of events: a few from each file, one per run")
    _add_sketch_tokens(group)


def _add_sketch_tokens(group: Adding) -> None:
    _add_number(group, "--sketch-tokens", 1024, "maximum tokens of a sketch")


def _add_sketches(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sketches", type=Path, metavar="FILE", help="recorded sketches, played at the points they were made for"
    )


def _add_out(group: Adding, default: str, told: str) -> None:
    told = f"folder for the files (default: {told})"
    group.add_argument("--out", type=Path, metavar="FOLDER", default=Path(default), help=told)
