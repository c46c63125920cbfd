"""Options that the commands on recorded runs share, and the points that a command is about."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from focusctx.cli.command import Problem
from focusctx.cli.replay import budgets_of

Adding: TypeAlias = argparse.ArgumentParser | argparse._ArgumentGroup

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
