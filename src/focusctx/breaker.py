"""A circuit breaker: a draft that keeps failing is left alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable


class Breaker:
    """Opens after `failures` failures in a row and stays open for `pause` seconds."""

    def __init__(self, failures: int, pause: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = failures
        self._pause = pause
        self._clock = clock
        self._failures = 0
        self._opened = -float("inf")

    def seconds_left(self) -> float:
        """How long the draft is still left alone; 0 when it may be asked."""
        return max(0.0, self._opened + self._pause - self._clock())

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self) -> None:
        self._failures += 1
        if self._failures >= self._limit:  # after the pause one failure is enough to open it again
            self._opened = self._clock()
