"""All in this process: tasks wait for their models side by side on one event loop.

Where no model is asked there is nothing to wait for: one task at a time is as fast, and its seconds are its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from focusctx.replay.answering import check_answering

from ..job import Unit
from ..spending import Meter
from ..workshop import Attempt, Workshop

CONCURRENCY = 8


class LocalEngine:
    def __init__(self, workshop: Workshop, concurrency: int | None = None) -> None:
        self._workshop = workshop
        self.concurrency = concurrency or (CONCURRENCY if workshop.job.waits_for_models else 1)

    async def check(self, units: Iterable[Unit]) -> None:
        await check_answering(name for unit in units for name in unit.variant.models)

    async def attempt(self, unit: Unit, meter: Meter) -> Attempt:
        return await self._workshop.attempt(unit, meter.step)

    def close(self) -> None:
        pass
