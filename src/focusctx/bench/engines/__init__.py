"""Where the work is done: in this process (`local.py`) or on a Ray cluster (`ray.py`)."""

from __future__ import annotations

from typing import Protocol

from ..job import Unit
from ..spending import Meter
from ..workshop import Attempt


class Engine(Protocol):
    concurrency: int
    """How many units to have under way at once."""

    async def attempt(self, unit: Unit, meter: Meter) -> Attempt:
        """Do one unit and say what it cost. Raises only for what a user has to put right."""

    def close(self) -> None: ...
