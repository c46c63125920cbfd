"""Engines that run units: on this machine's cores, concurrently on one event loop if they wait for a model, or on a Ray
cluster. Each reports the outcome of a unit as soon as it is done."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeAlias, TypeVar

from ..errors import BenchError, ConfigError, MissingExtraError
from .work import Unit

R = TypeVar("R")
Work: TypeAlias = Callable[[Unit], Coroutine[Any, Any, list[R]]]
"""Runs a unit. To run in other processes it must be a module's function, or a `partial` of one."""

SIDE_BY_SIDE = 64
"""Units that wait for a model concurrently: a local model answers many prompts in one batch."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    unit: Unit
    records: list[R]
    problem: str | None = None
    """Why there are no records."""


Report: TypeAlias = Callable[[Outcome[R]], None]


def on_cores(work: Work[R], units: Sequence[Unit], report: Report[R], jobs: int | None = None) -> None:
    """Run units in several processes, or in this one for a single job or unit.

    The processes end with this one, whatever ends it: their work may take minutes, and is no longer needed.
    """
    jobs = min(jobs or os.cpu_count() or 1, len(units))
    if jobs <= 1:
        for unit in units:
            report(_do(work, unit))
        return
    longest_first = sorted(units, key=lambda unit: -len(unit.run.messages))  # so that no process ends alone
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_begin) as pool:
        try:
            for future in as_completed([pool.submit(_do, work, unit) for unit in longest_first]):
                report(future.result())
        except BaseException:
            for worker in set(multiprocessing.active_children()) - others:
                worker.kill()
            raise


def side_by_side(work: Work[R], units: Sequence[Unit], report: Report[R], at_once: int | None = None) -> None:
    """Run units on one event loop in this process; they wait for their model concurrently."""

    async def main() -> None:
        places = asyncio.Semaphore(at_once or SIDE_BY_SIDE)

        async def one(unit: Unit) -> None:
            async with places:
                report(await _done(work, unit))

        async with asyncio.TaskGroup() as group:
            for unit in units:
                group.create_task(one(unit))

    try:
        asyncio.run(main())
    except* (ConfigError, MissingExtraError) as errors:
        raise errors.exceptions[0] from None


def on_ray(work: Work[R], units: Sequence[Unit], report: Report[R]) -> None:
    """Run units on the Ray cluster at RAY_ADDRESS or here; workers need this package and the draft's dependencies."""
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise MissingExtraError("the Ray engine", "ray", "focusctx-bench") from error
    joined = not ray.is_initialized()
    if joined:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
        except (OSError, RuntimeError, ValueError) as error:
            raise BenchError(f"no Ray cluster could be joined or started: {error}") from error
    try:
        remote = ray.remote(num_cpus=1, max_retries=1)(_do)
        running = {remote.remote(work, unit): unit for unit in units}
        while running:
            done, _ = ray.wait(list(running), num_returns=1)
            unit = running.pop(done[0])
            try:
                report(ray.get(done[0]))
            except ray.exceptions.RayError as error:
                report(Outcome(unit, [], f"lost on the cluster ({type(error).__name__})"))
    finally:
        if joined:
            ray.shutdown()


def _do(work: Work[R], unit: Unit) -> Outcome[R]:
    return asyncio.run(_done(work, unit))


async def _done(work: Work[R], unit: Unit) -> Outcome[R]:
    """Raise errors that the user must fix; report all others as this unit's problem."""
    try:
        return Outcome(unit, await work(unit))
    except (ConfigError, MissingExtraError):
        raise
    except Exception as error:
        return Outcome(unit, [], f"{unit.run}: {type(error).__name__}: {error}")


def _begin() -> None:
    """Prepare a worker process before its first unit."""
    logging.getLogger("focusctx").setLevel(logging.ERROR)  # the record says why a history was passed on
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit when the parent was killed; a worker would otherwise wait for its next unit forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
