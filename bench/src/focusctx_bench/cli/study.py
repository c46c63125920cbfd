"""`focusctx replay study`: the paper's estimator study on recorded runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from focusctx.cli.interrupt import interruptible
from focusctx.cli.options import DRAFTS, add_threshold
from focusctx.cli.parsers import parser_for
from focusctx.cli.problem import Problem, check_positive
from focusctx.cli.replay_options import DATA, add_data, runs_of

from .points_of import add_events, add_number, chosen_points, draft_name, points_with_sketches, sketches_in
from .report import say_failures, say_written

if TYPE_CHECKING:
    from focusctx.cli.parsers import Commands

    from ..replay.points import Point
    from ..replay.study.findings import Findings

_DESCRIPTION = f"""\
How many sketches are enough, and do they say what the future needs? Three
passes, each added to files in the folder, so that a stopped one can continue:

  sketches     the draft is asked for very many sketches at each event
  likelihoods  how likely the model finds possible next actions, its own plans
               and what the agent did, with each span left out in turn, for a
               model whose probabilities can be read (transformers:…); for any
               other, --samples N choices among those actions stand for them
  report       tables and figures of what is there; needs no model

{DATA}"""
_EPILOG = f"""\
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


def add_to(parts: Commands) -> None:
    summary = "the paper's estimator study: convergence, divergences, coverage"
    parser = parser_for(parts, "study", summary, _DESCRIPTION, _EPILOG)
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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
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
        return points_with_sketches([run for run in runs if (run.file, run.id) in known], recorded)
    return chosen_points(arguments, runs)


def _sketch(arguments: argparse.Namespace, points: list[Point]) -> None:
    from focusctx.cli.progress import progress
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
    from focusctx.cli.progress import progress
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
