"""Where the work is done: in this process (`local.py`) or on a Ray cluster (`ray.py`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..job import Unit
from ..spending import Meter
from ..workshop import Attempt


class Engine(Protocol):
    concurrency: int
    """How many units to have under way at once."""

    async def check(self, units: Iterable[Unit]) -> None:
        """Before the first of these units: raises a `DraftError` where a model that their methods ask gives no answer,
        as far as that can be known here."""

    async def attempt(self, unit: Unit, meter: Meter) -> Attempt:
        """Do one unit and say what it cost. Raises only for what a user has to put right."""

    def close(self) -> None: ...
