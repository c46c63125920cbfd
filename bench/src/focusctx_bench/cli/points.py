"""The work of `focusctx replay points`, `record`, `report` and `agree`; and points, sketches and files for others."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from focusctx.baselines.drafts import patient
from focusctx.cli.command import INCOMPLETE, Problem, check_positive, interruptible
from focusctx.cli.output import console_on, printable, progress
from focusctx.cli.replay import budgets_of, finish, folder_of, runs_of, settings_fields
from focusctx.cli.replay_table import Columns, print_lines, print_words_lost, share, with_interval
from focusctx.config import FocusConfig
from focusctx.drafts.registry import draft_from
from focusctx.jobs.engines import InProcess
from focusctx.jobs.runner import Runner, Tally
from focusctx.replay.facts import Evidence
from focusctx.replay.job import Plan, probe_drafts
from focusctx.replay.lines import by_file
from focusctx.replay.methods import Methods
from focusctx.replay.runs import Run

from ..models.served import model_from
from ..protocols import Model
from ..replay.agreement.answers import MethodView, answer_file, ask_all, sample, views_at
from ..replay.agreement.compare import agreement_table
from ..replay.agreement.local import LocalModel, runs_here, tools_by_file
from ..replay.judge import PointRecord, PointSettings, judge_all, point_records
from ..replay.points import Point, points_of
from ..replay.report.document import document
from ..replay.sketches import PointSketches, points_recorded, read_sketches, record_sketches, sketch_file
from ..report.document import Document, write_report
from .replay import FORMS
from .tables import print_table

_SKETCHED = 64
"""Points that a draft sketches for at once, where one is asked."""


def points(arguments: argparse.Namespace) -> int:
    runs = runs_of(arguments)
    recorded = sketches_in(arguments.sketches, runs)
    settings = _settings(arguments, runs, recorded)
    settings.check(more=("oracle",))
    plan = Plan(settings, runs, budgets_of(arguments, runs), arguments.engine, arguments.jobs)
    folder = folder_of(arguments)
    with interruptible(), folder.locked(), progress(sys.stderr) as watch:
        folder.begin(runs, sys.argv[1:])
        records = point_records(folder.path)
        tally = judge_all(plan, records, watch, recorded)
    _print_points(list(records.latest().values()))
    return finish(arguments, folder, tally)


def _settings(arguments: argparse.Namespace, runs: list[Run], recorded: list[PointSketches]) -> PointSettings:
    arguments.draft = arguments.draft or (None if arguments.sketches else "offline")
    return PointSettings(**settings_fields(arguments, runs), recorded=draft_name(recorded))


def _print_points(records: list[PointRecord]) -> None:
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
    console, files = console_on(sys.stdout), by_file(records)
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


def record(arguments: argparse.Namespace) -> int:
    check_positive(arguments, "sketch_tokens", "every", "at_once")
    runs = runs_of(arguments)
    if arguments.at:
        found = points_with_sketches(runs, sketches_in(arguments.at, runs))
    else:
        found = points_over_budget(arguments, runs)
    found = found[:: arguments.every]
    config = FocusConfig(
        rollouts=arguments.rollouts,
        sketch_tokens=arguments.sketch_tokens,
        deadline=arguments.deadline,
    )
    file = sketch_file(arguments.out)
    known = file.latest()
    began = time.monotonic()
    with interruptible(), progress(sys.stderr) as watch:
        if any(point.place not in known for point in found):
            asyncio.run(probe_drafts([arguments.draft]))
        draft = patient(arguments.draft, arguments.deadline)
        tally = record_sketches(draft, found, file, config=config, at_once=arguments.at_once, watch=watch)
    tokens = sum(one.output_tokens for key, one in file.latest().items() if key not in known)
    sys.stdout.write(
        f"{sum(tally.done.values())} points sketched in {time.monotonic() - began:.0f} s, {tokens} tokens written; "
        f"{printable(str(arguments.out))} has {len(found) - tally.left} of {len(found)}\n"
    )
    if tally.failures:
        sys.stderr.write(f"{tally.failures} points failed; the last error: {printable(tally.last_problem)}\n")
    return INCOMPLETE if tally.left else 0


def report(arguments: argparse.Namespace) -> int:
    return write_asked(arguments, document(arguments.folder), tables=True)


def write_asked(arguments: argparse.Namespace, made: Document, *, tables: bool = False) -> int:
    """Write a document in the forms that the options ask for."""
    forms = FORMS if arguments.format == "all" else (arguments.format,)
    return say_written(write_report(made, arguments.out or arguments.folder / "report", forms, tables=tables))


def agree(arguments: argparse.Namespace) -> int:
    check_positive(arguments, "points", "longest", "tokens", "at_once")
    runs = [run for run in runs_of(arguments) if run.format == "chat_completions"]
    if not runs:
        raise Problem("the data has no OpenAI chat runs, the only format that models can be asked in")
    recorded = sketches_in(arguments.sketches, runs)
    settings = _settings(arguments, runs, recorded)
    settings.check()
    if runs_here(arguments.agent):
        model: Model = LocalModel(draft_from(arguments.agent), tokens=arguments.tokens)
    else:
        model = model_from(arguments.agent)
    found = points_with_sketches(runs, recorded) if recorded else points_over_budget(arguments, runs)
    chosen = sample(found, arguments.points, arguments.longest)
    if not chosen:
        raise Problem(f"of {len(found)} histories over δ, none within --longest {arguments.longest} led to an action")
    folder = folder_of(arguments)
    sys.stderr.write(f"{len(chosen)} points\n")
    with interruptible(), folder.locked():
        folder.begin(runs, sys.argv[1:])
        answers = answer_file(folder.path)
        views = _views(settings, chosen, recorded)
        # A model that runs here decides by itself how many prompts are one batch.
        at_once = max(1, len(views)) if isinstance(model, LocalModel) else arguments.at_once
        tools = tools_by_file(runs)
        with progress(sys.stderr) as watch:
            tally = ask_all(model, views, answers, settings=settings, tools=tools, at_once=at_once, watch=watch)
    say_failures(tally)
    if table := agreement_table([answer for answer in answers if answer.model == model.name]):
        console = console_on(sys.stdout)
        print_table(console, table)
        console.print(table.note, style="dim", soft_wrap=True)
    else:
        sys.stderr.write("no point yet at which every method has an answer\n")
    return INCOMPLETE if tally.failures else 0


def _views(settings: PointSettings, chosen: list[Point], recorded: list[PointSketches]) -> list[MethodView]:
    found: list[MethodView] = []
    work = partial(views_at, Methods(settings), recorded)
    with progress(sys.stderr) as watch:
        runner = Runner(InProcess(_SKETCHED), work, found.extend, part=lambda _: "views", watch=watch)
        say_failures(runner.run_all(chosen))
    order = {point.place: number for number, point in enumerate(chosen)}
    return sorted(found, key=lambda view: order[view.point.place])


def say_written(files: Iterable[Path]) -> int:
    """Name the written files on standard output; return the exit code."""
    for path in files:
        sys.stdout.write(f"{printable(str(path))}\n")
    return 0


def say_failures(tally: Tally) -> None:
    """Say on standard error how many items failed, and why the last one did."""
    if tally.failures:
        sys.stderr.write(f"{tally.failures:,} failed; the last error: {printable(tally.last_problem)}\n")


def sketches_in(path: Path | None, runs: list[Run]) -> list[PointSketches]:
    """Read recorded sketches, some of which must be of these runs; none where there is no file to read."""
    if path is None:
        return []
    recorded = read_sketches(path)
    known = {(run.file, run.id) for run in runs}
    if not any((one.file, one.id) in known for one in recorded):
        asked = ", ".join(dict.fromkeys(run.file for run in runs))
        there = ", ".join(dict.fromkeys(one.file for one in recorded)) or "none"
        raise Problem(f"none of the {len(recorded)} recorded points is of a run in {asked}; files there: {there}")
    return recorded


def draft_name(recorded: list[PointSketches]) -> str | None:
    """Return the draft that made recorded sketches; None where there are none."""
    return next((one.draft for one in recorded if one.draft), "recorded") if recorded else None


def points_over_budget(arguments: argparse.Namespace, runs: list[Run]) -> list[Point]:
    """Return the points where histories first pass δ, 2δ and 4δ."""
    budgets = budgets_of(arguments, runs)
    return [point for run in runs for point in points_of(Evidence(run), budgets[run.file])]


def points_with_sketches(runs: list[Run], recorded: list[PointSketches]) -> list[Point]:
    return [point for run in runs for point in points_recorded(Evidence(run), recorded)]
