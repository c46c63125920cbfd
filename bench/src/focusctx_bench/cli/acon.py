"""`focusctx bench acon`: make ACON's guidelines for a benchmark from training runs."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focusctx.cli.options import DRAFTS
from focusctx.cli.parsers import parser_for
from focusctx.cli.problem import INCOMPLETE, Problem, check_positive

if TYPE_CHECKING:
    from ..job import BenchFolder, Job

_DESCRIPTION = """\
Make the guidelines of acon-ut and acon-utco for a benchmark: run its training
tasks with the full history and under a start guideline, let a strong model
improve the guideline on what went wrong (ut.md), run again, and let it be
shortened on what went well (utco.md).

It can be stopped at any time: the same command goes on where it was. Beside
each guideline a .json file says which models and tasks it was made with, what
it cost, and what the optimiser found.
"""
_EPILOG = f"""\
{DRAFTS}
then:
  focusctx bench run … --methods acon-ut acon-utco \\
    --guideline-ut FOLDER/ut.md --guideline-utco FOLDER/utco.md
"""
TRAINING_SEED = 1042
"""Seed of training tasks where a benchmark has no splits: another one than that of its test tasks."""


def add_acon(parts: Any, add_benchmarks: Any) -> None:
    parser = parser_for(parts, "acon", "make ACON's guidelines from training runs", _DESCRIPTION, _EPILOG)
    add_benchmarks(parser)
    what = parser.add_argument_group("who does what").add_argument
    what("--model", help="the agent's model (default: the benchmark's scripted agent, where it has one)")
    what("--compressor", help="who writes summaries by the guideline (default: MODEL)")
    what("--optimiser", help="the strong model that writes guidelines (default: COMPRESSOR)")
    what("--budget", type=int, metavar="TOKENS", help="δ: compress above this (default: the benchmark's)")
    what("--tasks", type=int, metavar="N", help="only the first N training tasks")
    what("--step-limit", type=int, metavar="N", help="the most turns of a task (default: the task's own)")
    how = parser.add_argument_group("how to run").add_argument
    how("--out", type=Path, metavar="FOLDER", required=True, help="where runs and guidelines go")
    how("--concurrency", type=int, metavar="N", default=8, help="tasks at once (default: 8)")
    how("--max-cost", type=float, metavar="USD", help="stop once all of it has cost this much")
    parser.set_defaults(run=make)


def make(arguments: argparse.Namespace) -> int:
    import asyncio

    from focusctx.cli.interrupt import interruptible

    from ..baselines.acon import Unfinished, cost_of, make_guidelines
    from ..baselines.summary import ask_from

    check_positive(arguments, "concurrency", "max_cost", "tasks", "step_limit", "budget")
    compressor = arguments.compressor or arguments.model
    if compressor is None:
        raise Problem("name who writes the summaries: --compressor, or --model for all")
    job, optimiser = _job(arguments, compressor), arguments.optimiser or compressor
    _check_price(optimiser, arguments.max_cost)
    ask = ask_from(optimiser, temperature=1.0, max_tokens=8192, deadline=600)
    run = _Runs(arguments)
    try:
        with interruptible():
            made = asyncio.run(make_guidelines(job, optimiser, ask, arguments.out, run))
    except Unfinished as error:
        sys.stderr.write(f"stopped: {error}; the same command goes on\n")
        return INCOMPLETE
    cost = cost_of(arguments.out)
    sys.stdout.write(f"{made.ut}\n{made.utco}\n")
    sys.stderr.write("the cost is not known: some model has no price\n" if cost is None else f"cost: ${cost:,.2f}\n")
    return 0


def _job(arguments: argparse.Namespace, compressor: str) -> Job:
    from ..job import Job
    from .run import benchmarks_of, method_options

    benchmarks = benchmarks_of(arguments)
    if len(benchmarks) != 1:
        raise Problem("a guideline is for one benchmark: name one with --benchmark")
    ((name, options),) = benchmarks.items()
    if name == "office":
        seed = TRAINING_SEED if arguments.seed is None else arguments.seed
        options = replace(options, seed=seed)
    elif options.split in ("", "test", "test_normal"):
        if options.split:
            raise Problem(f"guidelines are made from training tasks, not from {options.split!r}: use --split train")
        options = replace(options, split="train")
    return Job(
        benchmarks={name: options},
        methods=("none",),
        model=arguments.model,
        drafts=(compressor,),
        compressor=compressor,
        budgets=(arguments.budget,) if arguments.budget else (),
        count=arguments.tasks,
        step_limit=arguments.step_limit,
        method_options=method_options(arguments.set),
        seed=options.seed if name == "office" else (42 if arguments.seed is None else arguments.seed),
    )


def _check_price(optimiser: str, max_cost: float | None) -> None:
    from focusctx.drafts.registry import draft_from
    from focusctx.prices import price_of

    if max_cost is not None and price_of(draft_from(optimiser).name) is None:
        raise Problem(f"the spending limit cannot be kept: no price is known for {optimiser}; see FOCUSCTX_PRICES")


class _Runs:
    """Does the training runs, within what is left of the spending limit."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._out: Path = arguments.out
        self._concurrency: int = arguments.concurrency
        self._max_cost: float | None = arguments.max_cost

    async def __call__(self, job: Job, folder: BenchFolder) -> None:
        from focusctx.cli.progress import progress
        from focusctx.jobs.engines import InProcess

        from ..baselines.acon import Unfinished
        from ..run import Components, run_bench

        components = Components(job)
        components.check()
        with progress(sys.stderr) as watch:
            tally = await run_bench(
                job,
                components.tasks(),
                folder,
                InProcess(self._concurrency),
                max_cost=self._limit_for(folder),
                watch=watch,
            )
        if tally.left:
            raise Unfinished(f"{tally.stopped or 'tasks failed'}, {tally.left:,} training tasks are left")

    def _limit_for(self, folder: BenchFolder) -> float | None:
        """Return the limit of one run: what the other stages have not used up."""
        from ..baselines.acon import cost_of

        if self._max_cost is None:
            return None
        own = folder.spent() if folder.path.is_dir() else 0.0
        return max(1e-9, self._max_cost - (cost_of(self._out) or 0.0) + own)
