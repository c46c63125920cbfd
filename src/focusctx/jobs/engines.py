"""Engines, which do the work and count what it costs: in this process, or in several on this machine's cores.

Other packages add engines by entry point (`focusctx.engines`); focusctx-bench adds `ray`.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from ..errors import ConfigError, FocusError, MissingExtraError
from ..plugins import INSTALL_BENCH, plugin

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


class Spending:
    """USD over the whole job, earlier sittings included."""

    def __init__(self, limit: float | None = None, before: float = 0.0) -> None:
        self.limit = limit
        self.total = before
        self.unpriced = False
        """True once a model without a known price was asked: the total is then too low."""

    @property
    def is_used_up(self) -> bool:
        return self.limit is not None and self.total >= self.limit


class Meter:
    """The cost of one attempt, added to the job's spending as it arises."""

    def __init__(self, spending: Spending | None = None) -> None:
        self._spending = spending or Spending()
        self.cost: float | None = 0.0
        """None once a model without a known price was asked."""

    def add(self, cost: float | None, whose: str) -> None:
        """Count a cost. If there is a spending limit, an unknown cost is refused."""
        if cost is None:
            self.cost = None
            self._spending.unpriced = True
            if self._spending.limit is not None:
                raise ConfigError(
                    f"the spending limit cannot be enforced, since the price of {whose} is unknown: add it to a prices "
                    "file (FOCUSCTX_PRICES), or run without a limit"
                )
            return
        self._spending.total += cost
        if self.cost is not None:
            self.cost += cost


Work: TypeAlias = Callable[[I, Meter], Coroutine[Any, Any, Sequence[R]]]
"""Turns an item into records. To run in another process, it must be a module's function or a `partial` of one."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """The records of one attempt, or why there are none."""

    records: Sequence[R] = ()
    problem: str = ""
    trace: str = ""
    """Traceback of an unexpected error."""
    is_users: bool = False
    """True if the user has to fix it: a setting, a missing package. The job stops."""


class Engine(Protocol):
    concurrency: int
    """Items to have under way at once."""

    async def attempt(self, work: Work[I, R], item: I, meter: Meter) -> Outcome[R]:
        """Do one item. Errors of the work are part of the outcome, and are never raised."""

    def close(self) -> None:
        """Free what the engine holds, and end what is still under way."""


async def attempt(work: Work[I, R], item: I, meter: Meter) -> Outcome[R]:
    """Do one item here."""
    try:
        return Outcome(await work(item, meter))
    except (ConfigError, MissingExtraError) as error:
        return Outcome(problem=str(error), is_users=True)
    except FocusError as error:
        return Outcome(problem=str(error))
    except Exception as error:
        return Outcome(problem=f"{type(error).__name__}: {error}", trace=traceback.format_exc())


def attempt_elsewhere(work: Work[I, R], item: I) -> tuple[Outcome[R], float | None]:
    """Do one item in another process; also return its cost."""
    meter = Meter()
    return asyncio.run(attempt(work, item, meter)), meter.cost


class InProcess:
    """Runs all items on one event loop, where they wait for their models at the same time."""

    def __init__(self, concurrency: int = 1) -> None:
        self.concurrency = concurrency

    async def attempt(self, work: Work[I, R], item: I, meter: Meter) -> Outcome[R]:
        return await attempt(work, item, meter)

    def close(self) -> None:
        pass


class Processes:
    """One item per process and core, for work that computes. The processes end with this one, whatever ends it."""

    def __init__(self, jobs: int | None = None) -> None:
        self.concurrency = jobs or os.cpu_count() or 1
        self._others = set(multiprocessing.active_children())
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(self.concurrency, spawn, initializer=_begin_worker)

    async def attempt(self, work: Work[I, R], item: I, meter: Meter) -> Outcome[R]:
        loop = asyncio.get_running_loop()
        outcome: Outcome[R]
        try:
            outcome, cost = await loop.run_in_executor(self._pool, attempt_elsewhere, work, item)
        except BrokenExecutor:
            return Outcome(problem="a worker process was killed, perhaps for lack of memory")
        meter.add(cost, "one of the models")
        return outcome

    def close(self) -> None:
        # What is under way may take minutes, and nobody waits for it any more.
        for worker in set(multiprocessing.active_children()) - self._others:
            worker.kill()
        self._pool.shutdown(wait=False, cancel_futures=True)


def on_cores(items: int, jobs: int | None = None) -> Engine:
    """Return an engine for work that computes: no more processes than items, and none where one would do."""
    jobs = min(jobs or os.cpu_count() or 1, items)
    return Processes(jobs) if jobs > 1 else InProcess()


def engine_named(name: str, concurrency: int | None = None) -> Engine:
    """Return the engine that an installed package offers under this name."""
    maker = plugin("engines", name)
    if maker is None:
        raise ConfigError(f"the engine {name} comes with focusctx-bench: {INSTALL_BENCH}")
    engine: Engine = maker(concurrency)
    return engine


def _begin_worker() -> None:
    """Prepare a worker process: it logs errors only, leaves Ctrl-C to the parent, and ends with the parent."""
    logging.getLogger("focusctx").setLevel(logging.ERROR)  # records say why a history was passed on
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
