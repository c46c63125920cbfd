"""The same work on a Ray cluster: a unit is a Ray task, its record comes back to the driver, which writes it.

Workers need this package and whatever the benchmark and the models need: data at the same path, keys in the
environment. A worker that dies fails one attempt; trying again is the runner's business, not Ray's.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any

from focusctx.errors import BenchError, FocusError, MissingExtraError
from focusctx.replay.tally import Spending

from ..job import Job, Unit
from ..spending import Meter
from ..workshop import Attempt, Workshop


class RayEngine:
    """Joins the cluster that RAY_ADDRESS names or that runs on this machine; starts one here if there is none."""

    def __init__(self, job: Job, concurrency: int | None = None) -> None:
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
            except (OSError, RuntimeError, ValueError) as error:
                raise BenchError(f"no Ray cluster could be joined or started: {error}") from error
        cores = ray.cluster_resources().get("CPU", 1.0)
        self.concurrency = concurrency or max(1, int(cores))
        # Agents mostly wait: to have more at once than there are cores, each asks for a part of one.
        share = 1.0 if self.concurrency <= cores else math.floor(cores / self.concurrency * 10_000) / 10_000
        self._remote = ray.remote(num_cpus=share, max_retries=0)(_attempt)
        self._job = json.dumps(job.to_json())

    async def check(self, units: Iterable[Unit]) -> None:
        """Nothing: the workers may reach other servers than this machine does."""

    async def attempt(self, unit: Unit, meter: Meter) -> Attempt:
        reference = self._remote.remote(self._job, unit)
        attempt: Attempt
        try:
            attempt, cost = await reference
        except asyncio.CancelledError:
            self._ray.cancel(reference, force=True)
            raise
        except self._ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, FocusError):
                raise cause from None
            return Attempt(None, str(cause or error), str(error))
        except self._ray.exceptions.RayError as error:
            return Attempt(None, f"lost on the cluster ({type(error).__name__})")
        meter.add(cost, "one of the models")
        return attempt

    def close(self) -> None:
        if self._joined:
            self._ray.shutdown()


def _attempt(job: str, unit: Unit) -> tuple[Attempt, float | None]:
    """On the worker."""
    meter = Meter(Spending())
    attempt = asyncio.run(_workshop(job).attempt(unit, meter.step))
    return attempt, None if meter.unpriced else meter.cost


@cache
def _workshop(job: str) -> Workshop:
    told: dict[str, Any] = json.loads(job)
    return Workshop(Job.from_json(told))
