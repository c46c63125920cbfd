"""`focusctx replay ablate`: one setting changed at a time, on recorded runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from focusctx.cli.interrupt import interruptible
from focusctx.cli.options import DRAFTS
from focusctx.cli.parsers import commands_of, parser_for
from focusctx.cli.problem import Problem, check_positive
from focusctx.cli.replay_options import DATA, add_data, runs_of

from .points_of import add_events, add_number, chosen_points, draft_name, sketches_in
from .report import say_failures, say_written

if TYPE_CHECKING:
    from focusctx.cli.parsers import Commands

    from ..report.document import Document, Section

_DESCRIPTION = """\
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


def add_to(parts: Commands) -> None:
    summary = "what each setting is worth: N, τ, δ, every switch"
    kinds = commands_of(parser_for(parts, "ablate", summary, _DESCRIPTION))

    settings = parser_for(kinds, "settings", "N, τ and every switch, from recorded sketches", _SETTINGS)
    add_data(settings, budget=False)
    settings.add_argument("--sketches", type=Path, metavar="FILE", required=True, help="recorded sketches")
    settings.add_argument("--jobs", type=int, metavar="N", help="processes (default: one per core)")
    _add_out(settings)
    settings.set_defaults(run=run_settings)

    budgets = parser_for(kinds, "budgets", "δ, from replays at several budgets", _BUDGETS)
    budgets.add_argument("folder", type=Path, metavar="FOLDER", help="with the records of the replays")
    _add_out(budgets)
    budgets.set_defaults(run=run_budgets)

    rollouts = parser_for(kinds, "rollouts", "one after the other, at once, or one request", _ROLLOUTS, DRAFTS)
    add_data(rollouts)
    rollouts.add_argument("--draft", required=True, help="the model that sketches plans, see below")
    add_number(rollouts, "--rollouts", 3, "sketches per event")
    add_events(rollouts, 10)
    _add_out(rollouts)
    rollouts.set_defaults(run=run_rollouts)


def run_settings(arguments: argparse.Namespace) -> int:
    from focusctx.cli.progress import progress
    from focusctx.replay.methods import short_name

    from ..replay.ablations.settings import MEASURES, by_group, figures, judge_variants, tables, variants
    from ..report.document import Section

    runs = runs_of(arguments)
    recorded = sketches_in(arguments.sketches, runs)
    with interruptible("nothing was written"), progress(sys.stderr) as watch:
        judged, tally = judge_variants(runs, recorded, arguments.jobs, watch)
    say_failures(tally)
    found = by_group({variant: judged.get(number, []) for number, variant in enumerate(variants())})
    draft = short_name(draft_name(recorded) or "")
    counts = sorted(len(one.replies) for one in recorded)
    facts = f"{len(recorded):,} events, {counts[0]:,} to {counts[-1]:,} sketches at each."
    if counts[-1] < max(variant.config.rollouts for variant in variants()):
        facts += " Settings that need more sketches than an event has are left out."
    facts += f" {MEASURES}"
    return _write(arguments, Section("settings", f"Settings, draft {draft}", facts, tables(found), figures(found)))


def run_budgets(arguments: argparse.Namespace) -> int:
    from focusctx.replay.record import run_records

    from ..replay.ablations.budgets import figures, swept, tables
    from ..report.document import Section

    found = swept(run_records(arguments.folder).latest().values())
    if not found:
        raise Problem(
            f"{arguments.folder} has no method that was replayed at several budgets over the same runs: "
            "add some with `focusctx replay run --budget`"
        )
    facts = "The same runs at every budget, walked step by step with repeated events."
    return _write(arguments, Section("budgets", "Budgets", facts, tables(found), figures(found)))


def run_rollouts(arguments: argparse.Namespace) -> int:
    from focusctx.baselines.drafts import patient
    from focusctx.cli.progress import progress
    from focusctx.config import FocusConfig

    from ..replay.ablations.rollouts import measure, tables, taken_file
    from ..report.document import Section

    check_positive(arguments, "sketch_tokens", "events")
    file = taken_file(_out(arguments) / "rollouts.jsonl")
    points = chosen_points(arguments, runs_of(arguments))
    config = FocusConfig.paper(rollouts=arguments.rollouts, sketch_tokens=arguments.sketch_tokens)
    with interruptible(), progress(sys.stderr) as watch:
        tally = measure(patient(arguments.draft, 600.0), points, file, config, watch)
    say_failures(tally)
    facts = "One event at a time; the first request, which may load a model, is not counted."
    return _write(arguments, Section("rollouts", "Ways to sample", facts, tables(file), []))


def _write(arguments: argparse.Namespace, section: Section) -> int:
    from focusctx import __version__

    from ..report.document import Document, write_report

    command = f"    focusctx {' '.join(sys.argv[1:])}"
    document: Document = Document("Ablations", [f"Made by focusctx {__version__}:", command], [section])
    return say_written(write_report(document, _out(arguments), ("markdown",)))


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="folder for the files (default: in focusctx-ablations)"
    )


def _out(arguments: argparse.Namespace) -> Path:
    kind = arguments.run.__name__.removeprefix("run_")
    folder: Path = arguments.out or Path("focusctx-ablations") / kind
    return folder
