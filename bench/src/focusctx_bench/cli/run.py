"""`focusctx bench run`: from options to a finished table, with progress on the way and a clean stop."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from focusctx.cli.interrupt import interruptible
from focusctx.cli.problem import INCOMPLETE, check_positive
from focusctx.cli.progress import progress
from focusctx.cli.terminal import console_on, printable
from focusctx.jobs.engines import Engine, InProcess, engine_named
from focusctx.jobs.tally import Tally

from ..components import Components
from ..estimate import estimate
from ..folder import BenchFolder
from ..job import Job
from ..run import run_bench
from ..spending import check_prices
from .job_options import job_of, job_with_changes
from .tables import print_estimate, print_tables

_HOME = Path("focusctx-bench")
CONCURRENCY = 8
"""Tasks at once, where some model is waited for. Elsewhere one at a time is as fast, and its seconds are its own."""


def run_job(arguments: argparse.Namespace) -> int:
    import asyncio  # not above: all commands are loaded for `--help`

    check_positive(arguments, "concurrency", "max_cost", "tasks", "step_limit", "repeats")
    job, folder, left_out = _job_and_folder(arguments)
    components = Components(job)
    components.check()
    tasks = components.tasks()
    if arguments.estimate:
        print_estimate(console_on(sys.stdout), estimate(job, tasks, folder))
        return 0
    if (unknown := check_prices(job, arguments.max_cost)) and job.waits_for_models:
        sys.stderr.write(f"no price is known for {printable(', '.join(unknown))}: the cost shown will be too low\n")
    engine = _engine(arguments, job)
    for line in left_out:
        sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.write(f"records go to {printable(str(folder.path))}\n")
    tally = Tally()
    try:
        with interruptible(), progress(sys.stderr) as watch:
            local = arguments.engine == "local"
            work = run_bench(
                job, tasks, folder, engine, tally=tally, max_cost=arguments.max_cost, watch=watch, probe=local
            )
            asyncio.run(work)
    finally:
        engine.close()
        _report_problems(tally)
    print_tables(console_on(sys.stdout), folder.path)
    if tally.left:
        why = tally.stopped or "tasks failed"
        sys.stderr.write(f"stopped: {why}. {tally.left:,} tasks are left; run the same command again to continue\n")
    return INCOMPLETE if tally.left else 0


def _job_and_folder(arguments: argparse.Namespace) -> tuple[Job, BenchFolder, list[str]]:
    if not arguments.benchmark and arguments.out and BenchFolder(arguments.out).has_job:
        folder = BenchFolder(arguments.out)
        return job_with_changes(folder.job(), arguments), folder, []  # the folder refuses differences
    job, left_out = job_of(arguments)
    name = f"{'-'.join(job.benchmarks)}-{job.digest}"
    return job, BenchFolder(arguments.out or _HOME / name), left_out


def _engine(arguments: argparse.Namespace, job: Job) -> Engine:
    if arguments.engine != "local":
        return engine_named(arguments.engine, arguments.concurrency)
    return InProcess(arguments.concurrency or (CONCURRENCY if job.waits_for_models else 1))


def _report_problems(tally: Tally) -> None:
    say = sys.stderr.write
    if tally.last_problem:
        say(f"the last error: {printable(tally.last_problem)}\n")
    if tally.failures:
        say(f"{tally.failures:,} tasks failed for reasons outside the agent; attempts.jsonl lists them\n")
