"""Where units are done: on this machine's cores, side by side on one event loop where a model is waited for, or on
a Ray cluster. Each engine hands over what a unit came to as soon as it is there."""

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
"""Does a unit. Where it goes to other processes: a function of a module, or a `partial` of one."""

SIDE_BY_SIDE = 64
"""Units that wait for a model at once: a local model answers many prompts in one batch."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    unit: Unit
    records: list[R]
    problem: str | None = None
    """Why there are none."""


Report: TypeAlias = Callable[[Outcome[R]], None]


def on_cores(work: Work[R], units: Sequence[Unit], report: Report[R], jobs: int | None = None) -> None:
    """By several processes; by this one where only one is wanted or one unit is to do. They end with it, whatever ends
    it: what they are at may take minutes, for nobody then."""
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
    """On one event loop in this process: units wait for their model together."""

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
    """On the cluster that RAY_ADDRESS names or that runs here; workers need this package and what the draft needs."""
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
    """What a user has to put right is raised; whatever else goes wrong concerns this unit only."""
    try:
        return Outcome(unit, await work(unit))
    except (ConfigError, MissingExtraError):
        raise
    except Exception as error:
        return Outcome(unit, [], f"{unit.run}: {type(error).__name__}: {error}")


def _begin() -> None:
    """In a worker process, before its first unit."""
    logging.getLogger("focusctx").setLevel(logging.ERROR)  # why a history was passed on stands in the record
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for its next unit for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
