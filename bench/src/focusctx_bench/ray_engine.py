"""Do a job's work on a Ray cluster: an item is a Ray task, and its records come back to the driver, which writes them.

Workers need this package and whatever the work needs: data at the same path, keys in the environment. A worker that
dies fails one attempt; trying again is up to the runner, not Ray.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from importlib import import_module
from typing import Any, TypeVar

from focusctx.errors import BenchError, MissingExtraError
from focusctx.jobs.engines import Meter, Outcome, Work, attempt_elsewhere

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


class RayEngine:
    """Joins the cluster that RAY_ADDRESS names or that runs on this machine; starts one here if there is none."""

    def __init__(self, concurrency: int | None = None) -> None:
        try:
            ray: Any = import_module("ray")
        except ImportError as error:
            raise MissingExtraError("the Ray engine", "ray", "focusctx-bench") from error
        self._ray = ray
        self._joined = not ray.is_initialized()
        if self._joined:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            try:
                ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
            except Exception as error:  # Ray raises many kinds, bare ones too
                raise BenchError(f"no Ray cluster could be joined or started: {error}") from error
        cores = ray.cluster_resources().get("CPU", 1.0)
        self.concurrency = concurrency or max(1, int(cores))
        # Agents mostly wait: to have more at once than there are cores, each asks for a part of one.
        share = 1.0 if self.concurrency <= cores else math.floor(cores / self.concurrency * 10_000) / 10_000
        self._remote = ray.remote(num_cpus=share, max_retries=0)(attempt_elsewhere)

    async def attempt(self, work: Work[I, R], item: I, meter: Meter) -> Outcome[R]:
        reference = self._remote.remote(work, item)
        outcome: Outcome[R]
        try:
            outcome, cost = await reference
        except asyncio.CancelledError:
            self._ray.cancel(reference, force=True)
            raise
        except self._ray.exceptions.RayTaskError as error:
            return Outcome(problem=str(getattr(error, "cause", None) or error), trace=str(error))
        except self._ray.exceptions.RayError as error:
            return Outcome(problem=f"lost on the cluster ({type(error).__name__})")
        meter.add(cost, "one of the models")
        return outcome

    def close(self) -> None:
        if self._joined:
            self._ray.shutdown()
