"""`focusctx replay record`: ask a draft for sketches at every point of recorded runs, and keep them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from focusctx.cli.command import INCOMPLETE, check_positive, interruptible, parser_for
from focusctx.cli.options import DRAFTS
from focusctx.cli.replay import DATA, add_data

from .points_of import add_number, add_sketch_tokens, points_over_budget, points_with_sketches, sketches_in

if TYPE_CHECKING:
    from focusctx.cli.command import Commands

_DESCRIPTION = f"""\
Ask a draft for N sketches at every point of recorded runs, many points at
a time, and write them to FILE, one line per point. `points`, `study` and others
then play them back without a model. Points that FILE has are not asked about
again: run the same command again to continue.

{DATA}
A run's points are where its history first passes δ, 2δ and 4δ.
"""


def add_to(parts: Commands) -> None:
    parser = parser_for(parts, "record", "ask a draft for sketches at every point", _DESCRIPTION, DRAFTS)
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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
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
