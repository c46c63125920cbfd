"""The points of recorded runs that a command is about."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from focusctx.cli.problem import Problem
from focusctx.cli.replay_options import budgets_of

if TYPE_CHECKING:
    from focusctx.replay.points import Point
    from focusctx.replay.runs import Run
    from focusctx.replay.sketches import Recorded


def points_over_budget(arguments: argparse.Namespace, runs: list[Run]) -> list[Point]:
    """Where histories first pass δ, 2δ and 4δ."""
    from focusctx.replay.evidence import Evidence
    from focusctx.replay.points import points_of

    budgets = budgets_of(arguments, runs)
    return [point for run in runs for point in points_of(Evidence(run), budgets[run.file])]


def points_with_sketches(runs: list[Run], recorded: list[Recorded]) -> list[Point]:
    from focusctx.replay.evidence import Evidence
    from focusctx.replay.sketches import points_recorded

    return [point for run in runs for point in points_recorded(Evidence(run), recorded)]


def chosen_points(arguments: argparse.Namespace, runs: list[Run]) -> list[Point]:
    """As many as --events says, a few of each file."""
    from ..replay.study.events import choose

    points = choose(points_over_budget(arguments, runs), arguments.events)
    if not points:
        raise Problem("no run has a history over budget with 6 spans or more; a smaller --budget may help")
    return points
