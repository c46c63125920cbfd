"""`focusctx bench run`: from options to a finished table, with progress on the way and a clean stop."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from focusctx.cli.problem import INCOMPLETE, check_positive
from focusctx.cli.progress import progress
from focusctx.cli.terminal import console_on, printable
from focusctx.replay.tally import Tally

from ..engines import Engine
from ..engines.local import LocalEngine
from ..engines.ray import RayEngine
from ..folder import RunFolder
from ..job import Job
from ..runner import Runner
from ..workshop import Workshop
from .bench_job import job_as_told, job_of
from .bench_tables import print_tables

_HOME = Path("focusctx-bench")


def run_job(arguments: argparse.Namespace) -> int:
    check_positive(arguments, "concurrency", "max_cost", "tasks", "step_limit")
    job, folder, left_out = _what_and_where(arguments)
    workshop = Workshop(job)
    workshop.check()
    tasks = workshop.tasks()
    engine = _engine(arguments, workshop)
    say = sys.stderr.write
    for line in left_out:
        say(f"{printable(line)}\n")
    say(f"records go to {printable(str(folder.path))}\n")
    interrupted = False
    try:
        with progress(sys.stderr) as watch:
            runner = Runner(job, tasks, folder, engine, max_cost=arguments.max_cost, watch=watch)
            interrupted = _until_told_to_stop(runner)
    finally:
        engine.close()
    if not interrupted:
        print_tables(console_on(sys.stdout), folder.path)
    return _ending(runner.tally, interrupted=interrupted, waits_for_models=job.waits_for_models)


def _what_and_where(arguments: argparse.Namespace) -> tuple[Job, RunFolder, list[str]]:
    if not arguments.benchmark and arguments.out and RunFolder(arguments.out).has_job:
        folder = RunFolder(arguments.out)
        return job_as_told(folder.job(), arguments), folder, []  # what differs, the folder refuses
    job, left_out = job_of(arguments)
    name = f"{'-'.join(job.benchmarks)}-{job.digest}"
    return job, RunFolder(arguments.out or _HOME / name), left_out


def _engine(arguments: argparse.Namespace, workshop: Workshop) -> Engine:
    if arguments.engine == "ray":
        return RayEngine(workshop.job, arguments.concurrency)
    return LocalEngine(workshop, arguments.concurrency)


def _until_told_to_stop(runner: Runner) -> bool:
    """Whether somebody did, by Ctrl-C or by SIGTERM."""

    async def main() -> None:
        this = asyncio.current_task()
        assert this is not None
        # For Ctrl-C asyncio does the same by itself.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
        await runner.run()

    try:
        asyncio.run(main())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return True
    return False


def _ending(tally: Tally, *, interrupted: bool, waits_for_models: bool) -> int:
    """The exit code, and on standard error why there is more to do."""
    say = sys.stderr.write
    failed = sum(tally.failed.values())
    if tally.last_problem:
        say(f"the last failure: {printable(tally.last_problem)}\n")
    if failed:
        say(f"{failed:,} tasks failed for reasons that are not the agent's; attempts.jsonl has them all\n")
    if interrupted or tally.left:
        why = "interrupted" if interrupted else tally.stopped or "tasks failed"
        say(f"stopped: {why}. {tally.left:,} tasks are left; the same command goes on with them\n")
    if tally.spending.unpriced and waits_for_models:
        say("the cost is not known: some model has no price\n")
    if interrupted:
        return 130
    return INCOMPLETE if tally.left else 0
