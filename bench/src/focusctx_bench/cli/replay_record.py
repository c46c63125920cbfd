"""`focusctx replay record`: ask a draft for sketches at every point of recorded runs, and keep them."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from focusctx.cli.interrupt import interruptible
from focusctx.cli.options import DRAFTS
from focusctx.cli.parsers import parser_for
from focusctx.cli.problem import INCOMPLETE, check_positive
from focusctx.cli.replay_options import DATA, add_data

if TYPE_CHECKING:
    from focusctx.cli.parsers import Commands
    from focusctx.replay.sketches import Recorded

_DESCRIPTION = f"""\
Ask a draft for N sketches at every point of recorded runs, many points at
once, and write them to FILE, one line a point. `points`, `study` and others
then play them with no model at hand. What FILE holds is not asked again, so
the same command goes on where it was.

{DATA}
A run's points are where its history first passes δ, 2δ and 4δ.
"""


def add_to(parts: Commands) -> None:
    parser = parser_for(parts, "record", "ask a draft for sketches at every point", _DESCRIPTION, DRAFTS)
    add_data(parser)
    add = parser.add_argument_group("what to ask").add_argument
    add("--draft", required=True, help="who sketches plans, see below")
    add("--out", type=Path, required=True, metavar="FILE", help="where the sketches go")
    add("--at", type=Path, metavar="FILE", help="only the points of these recorded sketches")
    add("--rollouts", type=int, metavar="N", default=3, help="sketches per point (default: 3)")
    add("--temperature", type=float, default=0.7, help="of the draft (default: 0.7)")
    add("--sketch-tokens", type=int, metavar="N", default=1024, help="tokens of a sketch at most (default: 1024)")
    add("--optimistic", action="store_true", help="ask for no rescued spans")
    add("--every", type=int, metavar="N", default=1, help="only every Nth point (default: 1)")
    add("--at-once", type=int, metavar="N", default=256, help="points asked about at once (default: 256)")
    add(
        "--deadline",
        type=float,
        metavar="SECONDS",
        default=1800.0,
        help="how long the sketches of a point may take (default: 1800)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import asyncio

    from focusctx.baselines.patience import patient
    from focusctx.cli.progress import progress
    from focusctx.cli.replay_options import runs_of, sketches_in
    from focusctx.cli.terminal import printable
    from focusctx.config import FocusConfig
    from focusctx.replay.answering import check_answering
    from focusctx.replay.sketches import Sketches, record
    from focusctx.replay.tally import Tally

    from .replay_places import points_over_budget, points_with_sketches

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
    planned = dict(Counter(point.file for point in points))
    zero = dict.fromkeys(planned, 0)
    tally = Tally(planned=planned, before=dict(zero), done=dict(zero), failed=dict(zero), began=time.monotonic())
    tokens = 0
    with interruptible(), progress(sys.stderr) as watch:

        def told(file: str, recorded: Recorded | None, problem: str | None) -> None:
            nonlocal tokens
            if problem:
                tally.failed[file] += 1
                tally.last_problem = problem
            elif recorded:
                tally.done[file] += 1
                tokens += recorded.output_tokens
            else:
                tally.before[file] += 1
            watch(tally)

        sketches = Sketches(arguments.out)
        known = sketches.open()
        if any((point.file, point.run, point.messages) not in known for point in points):
            asyncio.run(check_answering([arguments.draft]))
        work = record(
            patient(arguments.draft, arguments.deadline),
            points,
            sketches,
            config=config,
            at_once=arguments.at_once,
            watch=told,
        )
        asyncio.run(work)
    seconds = time.monotonic() - tally.began
    sys.stdout.write(
        f"{sum(tally.done.values())} points sketched in {seconds:.0f} s, {tokens} tokens written; "
        f"{printable(str(arguments.out))} has {len(points) - tally.left} of {len(points)}\n"
    )
    if tally.last_problem:
        sys.stderr.write(f"{sum(tally.failed.values())} points failed; the last: {printable(tally.last_problem)}\n")
    return INCOMPLETE if tally.left else 0
