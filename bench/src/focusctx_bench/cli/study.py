"""`focusctx replay study` and `ablate`: the paper's estimator study, and one setting changed at a time, on recorded
runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from focusctx.cli.command import Problem, check_positive, commands_of, interruptible, parser_for
from focusctx.cli.options import DRAFTS, add_threshold
from focusctx.cli.replay import DATA, add_data, runs_of

from .replay import (
    add_events,
    add_number,
    chosen_points,
    draft_name,
    points_with_sketches,
    say_failures,
    say_written,
    sketches_in,
)

if TYPE_CHECKING:
    from focusctx.cli.command import Commands

    from ..replay.points import Point
    from ..replay.study.findings import Findings
    from ..report.document import Document, Section

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
_PATIENCE = 3600.0
"""Seconds that the sketches of one event may take: hundreds, beside those of other events."""
_PASSES = ("sketches", "likelihoods", "report")
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


def add_study(parts: Commands) -> None:
    summary = "the paper's estimator study: convergence, divergences, coverage"
    parser = parser_for(parts, "study", summary, _STUDY, _STUDY_EPILOG)
    add_data(parser)
    group = parser.add_argument_group("what to study")
    what = group.add_argument
    what("--draft", help="the model that sketches plans, see below")
    what("--sketches", type=Path, metavar="FILE", help="recorded sketches and their events, in place of a draft's")
    what("--likelihoods", type=Path, metavar="FILE", help="recorded likelihoods (default: those in the folder)")
    what("--only", choices=_PASSES, metavar="PASS", help="just one pass: sketches, likelihoods or report")
    add_events(group, 30)
    add_number(group, "--rollouts", 100, "sketches at each event")
    add_threshold(group)
    add_number(group, "--actions", 12, "possible next actions that are scored at each event")
    add_number(group, "--plans", 4, "plans that are scored at each event")
    what(
        "--samples",
        type=int,
        metavar="N",
        help="choices sampled with all spans and without each, where probabilities cannot be read; with s spans that "
        "is N·(s + 1) answers an event (default: none)",
    )
    how = parser.add_argument_group("how to run")
    how.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        default=Path("focusctx-study"),
        help="folder for the files (default: focusctx-study)",
    )
    add_number(how, "--at-once", 8, "events that are sketched at a time")
    parser.set_defaults(run=run_study)


def run_study(arguments: argparse.Namespace) -> int:
    check_positive(arguments, "events", "sketch_tokens", "actions", "plans", "at_once", "samples")
    wanted = (arguments.only,) if arguments.only else _PASSES
    if not arguments.draft and not arguments.sketches and "report" not in wanted:
        raise Problem("this pass needs a --draft")
    points = _points(arguments)
    with interruptible():
        if "sketches" in wanted and arguments.draft and not arguments.sketches:
            _sketch(arguments, points)
        if "likelihoods" in wanted and arguments.draft:
            _score(arguments, points, asked=arguments.only is not None)
    if "report" in wanted:
        _report(arguments, points)
    return 0


def _points(arguments: argparse.Namespace) -> list[Point]:
    """Return the points of the recorded sketches, where only those are studied, or a few of each file."""
    runs = runs_of(arguments)
    if arguments.sketches or arguments.only == "report":
        recorded = sketches_in(_sketches_path(arguments), runs)
        known = {one.key[:2] for one in recorded}
        return points_with_sketches(
            [run_study for run_study in runs if (run_study.file, run_study.id) in known], recorded
        )
    return chosen_points(arguments, runs)


def _sketch(arguments: argparse.Namespace, points: list[Point]) -> None:
    from focusctx.cli.output import progress
    from focusctx.config import FocusConfig
    from focusctx.drafts.registry import draft_from

    from ..replay.sketches import record_sketches, sketch_file

    config = FocusConfig.paper(
        rollouts=arguments.rollouts,
        threshold=arguments.threshold,
        sketch_tokens=arguments.sketch_tokens,
        deadline=_PATIENCE,
    )
    file, draft, at_once = sketch_file(_sketches_path(arguments)), draft_from(arguments.draft), arguments.at_once
    with progress(sys.stderr) as watch:
        tally = record_sketches(
            draft, points, file, config=config, at_once=at_once, watch=watch, part=lambda _: "sketches"
        )
    say_failures(tally)


def _score(arguments: argparse.Namespace, points: list[Point], *, asked: bool) -> None:
    from focusctx.cli.output import progress
    from focusctx.drafts import TransformersDraft
    from focusctx.drafts.registry import draft_from, price_of_draft

    from ..replay.likelihood import TransformersScorer
    from ..replay.study.scoring import Amounts, likelihood_file, sample_points, score_points

    draft = draft_from(arguments.draft)
    if not isinstance(draft, TransformersDraft) and not arguments.samples:
        if asked:
            raise Problem(f"the probabilities of {draft.name} cannot be read: give --samples N, or use transformers:…")
        return
    amounts = Amounts(actions=arguments.actions, plans=arguments.plans, samples=arguments.samples or 0)
    file = likelihood_file(_likelihoods_path(arguments))
    with progress(sys.stderr) as watch:
        if isinstance(draft, TransformersDraft):
            tally = score_points(TransformersScorer(draft), points, file, amounts, watch)
        else:
            price = price_of_draft(draft)
            tally = sample_points(draft, points, file, amounts=amounts, price=price, watch=watch)
    say_failures(tally)


def _report(arguments: argparse.Namespace, points: list[Point]) -> None:
    from focusctx.replay.methods import short_name

    from ..replay.sketches import read_sketches
    from ..replay.study.events import gather
    from ..replay.study.findings import study
    from ..replay.study.report import document
    from ..replay.study.scoring import likelihood_file
    from ..report.document import write_report

    recorded = read_sketches(_sketches_path(arguments))
    scored = likelihood_file(_likelihoods_path(arguments)).latest()
    events = gather(points, {one.key: one for one in recorded}, {one.place: one for one in scored.values()})
    if not events:
        raise Problem(
            f"{_sketches_path(arguments)} has no event of these runs with 6 spans or more and a sketch that is a plan"
        )
    findings = study(events, short_name(draft_name(recorded) or ""), arguments.threshold)
    for line in _headline(findings):
        sys.stdout.write(f"{line}\n")
    command = f"focusctx {' '.join(sys.argv[1:])}"
    say_written(write_report(document(findings, command), arguments.out, ("markdown",)))


def _headline(findings: Findings) -> list[str]:
    from ..replay.study.report import facts

    lines = [facts(findings)]
    for curve in findings.curves:
        if curve.enough:
            settles, slope = curve.settles(), curve.slope()
            at = f"settles at N = {settles}" if settles else f"does not settle by N = {curve.sizes[-1]}"
            falls = f"; worst-span error falls with slope {slope.mean:.2f}" if slope else ""
            lines.append(f"{curve.name}: {at}{falls}")
    return lines


def _sketches_path(arguments: argparse.Namespace) -> Path:
    path: Path = arguments.sketches or arguments.out / "sketches.jsonl"
    return path


def _likelihoods_path(arguments: argparse.Namespace) -> Path:
    path: Path = arguments.likelihoods or arguments.out / "likelihoods.jsonl"
    return path


def add_ablate(parts: Commands) -> None:
    summary = "what each setting is worth: N, τ, δ, every switch"
    kinds = commands_of(parser_for(parts, "ablate", summary, _ABLATE))

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
    from focusctx.cli.output import progress
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
    from focusctx.cli.output import progress
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
