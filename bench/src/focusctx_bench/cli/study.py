"""The work of `focusctx replay study` and `ablate`: the paper's estimator study, and one setting changed at a time."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from focusctx import __version__
from focusctx.baselines.drafts import patient
from focusctx.cli.command import Problem, check_positive, interruptible
from focusctx.cli.output import progress
from focusctx.cli.replay import runs_of
from focusctx.config import FocusConfig
from focusctx.drafts import TransformersDraft
from focusctx.drafts.registry import draft_from, price_of_draft
from focusctx.replay.methods import short_name
from focusctx.replay.record import run_records
from focusctx.replay.runs import Run

from ..replay.ablations import budgets as over_budgets
from ..replay.ablations import rollouts as over_rollouts
from ..replay.ablations import settings as over_settings
from ..replay.likelihood import TransformersScorer
from ..replay.points import Point
from ..replay.sketches import read_sketches, record_sketches, sketch_file
from ..replay.study import findings
from ..replay.study.events import choose, gather
from ..replay.study.report import document, facts
from ..replay.study.scoring import Amounts, likelihood_file, sample_points, score_points
from ..report.document import Document, Section, write_report
from .points import draft_name, points_over_budget, points_with_sketches, say_failures, say_written, sketches_in
from .replay import PASSES

_PATIENCE = 3600.0
"""Seconds that the sketches of one event may take: hundreds, beside those of other events."""


def study(arguments: argparse.Namespace) -> int:
    check_positive(arguments, "events", "sketch_tokens", "at_once", "samples")
    wanted = (arguments.only,) if arguments.only else PASSES
    if not arguments.draft and not arguments.sketches and "report" not in wanted:
        raise Problem("this pass needs a --draft")
    sketches: Path = arguments.sketches or arguments.out / "sketches.jsonl"
    likelihoods: Path = arguments.likelihoods or arguments.out / "likelihoods.jsonl"
    runs = runs_of(arguments)
    if arguments.sketches or arguments.only == "report":
        recorded = sketches_in(sketches, runs)
        known = {one.key[:2] for one in recorded}
        points = points_with_sketches([run for run in runs if (run.file, run.id) in known], recorded)
    else:
        points = _chosen_points(arguments, runs)
    with interruptible():
        if "sketches" in wanted and arguments.draft and not arguments.sketches:
            _sketch(arguments, points, sketches)
        if "likelihoods" in wanted and arguments.draft:
            _score(arguments, points, likelihoods)
    if "report" in wanted:
        _report(arguments, points, sketches, likelihoods)
    return 0


def _chosen_points(arguments: argparse.Namespace, runs: list[Run]) -> list[Point]:
    """Choose as many points as --events says, a few of each file."""
    points = choose(points_over_budget(arguments, runs), arguments.events)
    if not points:
        raise Problem("no run has a history over budget with 6 spans or more; a smaller --budget may help")
    return points


def _sketch(arguments: argparse.Namespace, points: list[Point], path: Path) -> None:
    config = FocusConfig.paper(
        rollouts=arguments.rollouts,
        threshold=arguments.threshold,
        sketch_tokens=arguments.sketch_tokens,
        deadline=_PATIENCE,
    )
    file, draft, at_once = sketch_file(path), draft_from(arguments.draft), arguments.at_once
    with progress(sys.stderr) as watch:
        tally = record_sketches(draft, points, file, config=config, at_once=at_once, watch=watch)
    say_failures(tally)


def _score(arguments: argparse.Namespace, points: list[Point], path: Path) -> None:
    draft, file = draft_from(arguments.draft), likelihood_file(path)
    if not isinstance(draft, TransformersDraft) and not arguments.samples:
        if arguments.only:
            raise Problem(f"the probabilities of {draft.name} cannot be read: give --samples N, or use transformers:…")
        return
    amounts = Amounts(samples=arguments.samples or 0)
    with progress(sys.stderr) as watch:
        if isinstance(draft, TransformersDraft):
            tally = score_points(TransformersScorer(draft), points, file, amounts, watch)
        else:
            price = price_of_draft(draft)
            tally = sample_points(draft, points, file, amounts=amounts, price=price, watch=watch)
    say_failures(tally)


def _report(arguments: argparse.Namespace, points: list[Point], sketches: Path, likelihoods: Path) -> None:
    recorded = read_sketches(sketches)
    scored = {one.place: one for one in likelihood_file(likelihoods)}
    events = gather(points, {one.key: one for one in recorded}, scored)
    if not events:
        raise Problem(f"{sketches} has no event of these runs with 6 spans or more and a sketch that is a plan")
    found = findings.study(events, short_name(draft_name(recorded) or ""), arguments.threshold)
    sys.stdout.write(f"{facts(found)}\n")
    for curve in found.curves:
        if curve.enough:
            settles, slope = curve.settles(), curve.slope()
            at = f"settles at N = {settles}" if settles else f"does not settle by N = {curve.sizes[-1]}"
            falls = f"; worst-span error falls with slope {slope.mean:.2f}" if slope else ""
            sys.stdout.write(f"{curve.name}: {at}{falls}\n")
    command = f"focusctx {' '.join(sys.argv[1:])}"
    say_written(write_report(document(found, command), arguments.out, ("markdown",)))


def settings(arguments: argparse.Namespace) -> int:
    runs = runs_of(arguments)
    recorded = sketches_in(arguments.sketches, runs)
    with interruptible("nothing was written"), progress(sys.stderr) as watch:
        found, tally = over_settings.judge_variants(runs, recorded, arguments.jobs, watch)
    say_failures(tally)
    draft = short_name(draft_name(recorded) or "")
    counts = sorted(len(one.replies) for one in recorded)
    said = f"{len(recorded):,} events, {counts[0]:,} to {counts[-1]:,} sketches at each."
    if counts[-1] < max(variant.config.rollouts for variant in over_settings.variants()):
        said += " Settings that need more sketches than an event has are left out."
    said += f" {over_settings.MEASURES}"
    tables, figures = over_settings.tables(found), over_settings.figures(found)
    return _write(arguments, Section("settings", f"Settings, draft {draft}", said, tables, figures))


def budgets(arguments: argparse.Namespace) -> int:
    found = over_budgets.swept(run_records(arguments.folder).latest().values())
    if not found:
        raise Problem(
            f"{arguments.folder} has no method that was replayed at several budgets over the same runs: "
            "add some with `focusctx replay run --budget`"
        )
    said = "The same runs at every budget, walked step by step with repeated events."
    return _write(
        arguments, Section("budgets", "Budgets", said, over_budgets.tables(found), over_budgets.figures(found))
    )


def rollouts(arguments: argparse.Namespace) -> int:
    check_positive(arguments, "sketch_tokens", "events")
    file = over_rollouts.taken_file(arguments.out / "rollouts.jsonl")
    points = _chosen_points(arguments, runs_of(arguments))
    config = FocusConfig.paper(rollouts=arguments.rollouts, sketch_tokens=arguments.sketch_tokens)
    with interruptible(), progress(sys.stderr) as watch:
        tally = over_rollouts.measure(patient(arguments.draft, 600.0), points, file, config, watch)
    say_failures(tally)
    said = "One event at a time; the first request, which may load a model, is not counted."
    return _write(arguments, Section("rollouts", "Ways to sample", said, over_rollouts.tables(file), []))


def _write(arguments: argparse.Namespace, section: Section) -> int:
    command = f"    focusctx {' '.join(sys.argv[1:])}"
    document = Document("Ablations", [f"Made by focusctx {__version__}:", command], [section])
    return say_written(write_report(document, arguments.out, ("markdown",)))
