"""`focusctx replay points`, `record` and `report`; and the options that all commands on recorded runs share.

- `points`: one event at each point of recorded runs, judged by all that came after.
- `record`: ask a draft for sketches at every point, and keep them.
- `report`: tables and pictures of what was replayed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from focusctx.cli.command import INCOMPLETE, Problem, check_positive, interruptible, parser_for
from focusctx.cli.options import DRAFTS
from focusctx.cli.output import printable
from focusctx.cli.replay import (
    CHAT_ONLY,
    DATA,
    REPLAY_METHODS,
    USUAL_METHODS,
    add_data,
    add_methods,
    add_running,
    budgets_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from focusctx.cli.command import Commands
    from focusctx.jobs.runner import Tally

    from ..replay.judge import PointRecord

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
FORMS = ("markdown", "latex", "html")
_REPORT = """\
Make tables and pictures of everything that was replayed into FOLDER: walks,
points and a model's answers; recall against tokens left with all methods on
one picture, FOCUS against those that got its share of tokens, with intervals
by bootstrap over runs, and others' figures beside ours. Tables are written as
Markdown, HTML, LaTeX and CSV, pictures as PNG and SVG.
"""
Adding: TypeAlias = argparse.ArgumentParser | argparse._ArgumentGroup


def add_points(parts: Commands) -> None:
    epilog = f"{REPLAY_METHODS}{_ORACLE}\n{DRAFTS}"
    parser = parser_for(parts, "points", "one event at each point, judged by the future", _POINTS, epilog)
    add_data(parser)
    add_methods(parser, (*USUAL_METHODS, "oracle"), "offline; none with --sketches")
    add_sketches(parser)
    add_running(parser)
    parser.set_defaults(run=run_points)


def run_points(arguments: argparse.Namespace) -> int:
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
    _print_points(console_on(sys.stdout), list(records.latest().values()))
    return finish(arguments, folder, tally)


def _print_points(console: Console, records: Sequence[PointRecord]) -> None:
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


def add_record(parts: Commands) -> None:
    parser = parser_for(parts, "record", "ask a draft for sketches at every point", _RECORD, DRAFTS)
    add_data(parser)
    group = parser.add_argument_group("what to ask")
    add = group.add_argument
    add("--draft", required=True, help="the model that sketches plans, see below")
    add("--out", type=Path, required=True, metavar="FILE", help="file for the sketches")
    add("--at", type=Path, metavar="FILE", help="only the points of these recorded sketches")
    add("--optimistic", action="store_true", help="ask for no rescued spans")
    add_number(group, "--rollouts", 3, "sketches per point")
    add_number(group, "--temperature", 0.7, "of the draft")
    add_sketch_tokens(group)
    add_number(group, "--every", 1, "only every Nth point")
    add_number(group, "--at-once", 256, "points asked about at a time")
    add_number(group, "--deadline", 1800.0, "time limit for the sketches of a point", "SECONDS")
    parser.set_defaults(run=run_record)


def run_record(arguments: argparse.Namespace) -> int:
    import asyncio
    import time

    from focusctx.baselines.drafts import patient
    from focusctx.cli.output import printable, progress
    from focusctx.cli.replay import runs_of
    from focusctx.config import FocusConfig
    from focusctx.replay.job import probe_drafts

    from ..replay.sketches import record_sketches, sketch_file

    check_positive(arguments, "sketch_tokens", "every", "at_once")
    runs = runs_of(arguments)
    if arguments.at:
        points = points_with_sketches(runs, sketches_in(arguments.at, runs))
    else:
        points = points_over_budget(arguments, runs)
    points = points[:: arguments.every]
    config = FocusConfig(
        rollouts=arguments.rollouts,
        temperature=arguments.temperature,
        sketch_tokens=arguments.sketch_tokens,
        defensive=not arguments.optimistic,
        deadline=arguments.deadline,
    )
    file = sketch_file(arguments.out)
    known = file.latest()
    began = time.monotonic()
    with interruptible(), progress(sys.stderr) as watch:
        if any(point.place not in known for point in points):
            asyncio.run(probe_drafts([arguments.draft]))
        draft = patient(arguments.draft, arguments.deadline)
        tally = record_sketches(draft, points, file, config=config, at_once=arguments.at_once, watch=watch)
    tokens = sum(one.output_tokens for key, one in file.latest().items() if key not in known)
    sys.stdout.write(
        f"{sum(tally.done.values())} points sketched in {time.monotonic() - began:.0f} s, {tokens} tokens written; "
        f"{printable(str(arguments.out))} has {len(points) - tally.left} of {len(points)}\n"
    )
    if tally.failures:
        sys.stderr.write(f"{tally.failures} points failed; the last error: {printable(tally.last_problem)}\n")
    return INCOMPLETE if tally.left else 0


def add_report_options(parser: argparse.ArgumentParser, folder: str) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help=folder)
    parser.add_argument("--format", choices=(*FORMS, "all"), default="all", help="of the document (default: all)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder for the files (default: FOLDER/report)")


def forms_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    return FORMS if arguments.format == "all" else (arguments.format,)


def report_folder(arguments: argparse.Namespace) -> Path:
    folder: Path = arguments.out or arguments.folder / "report"
    return folder


def say_written(files: Iterable[Path]) -> int:
    """Name the written files on standard output; return the exit code."""
    for path in files:
        sys.stdout.write(f"{printable(str(path))}\n")
    return 0


def say_failures(tally: Tally) -> None:
    """Say on standard error how many items failed, and why the last one did."""
    if tally.failures:
        sys.stderr.write(f"{tally.failures:,} failed; the last error: {printable(tally.last_problem)}\n")


def add_report(parts: Commands) -> None:
    parser = parser_for(parts, "report", "tables and pictures of what was replayed", _REPORT)
    add_report_options(parser, "where a replay wrote its records")
    parser.set_defaults(run=run_report)


def run_report(arguments: argparse.Namespace) -> int:
    from ..replay.report.document import document
    from ..report.document import write_report

    made = document(arguments.folder)
    return say_written(write_report(made, report_folder(arguments), forms_of(arguments), tables=True))


if TYPE_CHECKING:
    from focusctx.replay.runs import Run

    from ..replay.points import Point
    from ..replay.sketches import PointSketches


def add_number(group: Adding, name: str, default: float, help: str, metavar: str = "N") -> None:
    """Add an option whose value is a number like its default, which the help names."""
    group.add_argument(
        name, type=type(default), metavar=metavar, default=default, help=f"{help} (default: {default:g})"
    )


def add_events(group: Adding, default: int) -> None:
    """Add the options that `chosen_points` and the sketches at these points need."""
    add_number(group, "--events", default, "number of events: a few from each file, one per run")
    add_sketch_tokens(group)


def add_sketch_tokens(group: Adding) -> None:
    add_number(group, "--sketch-tokens", 1024, "maximum tokens of a sketch")


def add_sketches(parser: argparse.ArgumentParser) -> None:
    """Add the option `--sketches`."""
    parser.add_argument(
        "--sketches", type=Path, metavar="FILE", help="recorded sketches, played at the points they were made for"
    )


def sketches_in(path: Path | None, runs: list[Run]) -> list[PointSketches]:
    """Read recorded sketches, some of which must be of these runs; none where there is no file to read."""
    from ..replay.sketches import read_sketches

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
    from focusctx.replay.facts import Evidence

    from ..replay.points import points_of

    budgets = budgets_of(arguments, runs)
    return [point for run in runs for point in points_of(Evidence(run), budgets[run.file])]


def points_with_sketches(runs: list[Run], recorded: list[PointSketches]) -> list[Point]:
    from focusctx.replay.facts import Evidence

    from ..replay.sketches import points_recorded

    return [point for run in runs for point in points_recorded(Evidence(run), recorded)]


def chosen_points(arguments: argparse.Namespace, runs: list[Run]) -> list[Point]:
    """Choose as many points as --events says, a few of each file."""
    from ..replay.study.events import choose

    points = choose(points_over_budget(arguments, runs), arguments.events)
    if not points:
        raise Problem("no run has a history over budget with 6 spans or more; a smaller --budget may help")
    return points
