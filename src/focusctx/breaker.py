"""A circuit breaker: a draft that keeps failing is not asked for a while."""

from __future__ import annotations

import time
from collections.abc import Callable


class Breaker:
    """Opens for `pause` seconds after `failures` failures in a row, or once they have cost `patience` seconds.

    So a draft that hangs costs one deadline. The pause then lasts at least as long as the draft hung: after a shorter
    one, retries would still take most of the agent's time.

    With a `pause` of 0 it never opens.
    """

    def __init__(
        self, failures: int, pause: float, patience: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = failures
        self._pause = pause
        self._patience = patience
        self._clock = clock
        self._failures = 0
        self._lost = 0.0
        self._until = -float("inf")

    def seconds_left(self) -> float:
        """Return the seconds until the draft may be asked again; 0 if it may be now."""
        return max(0.0, self._until - self._clock())

    def succeeded(self) -> None:
        self._failures, self._lost = 0, 0.0

    def failed(self, seconds: float) -> None:
        """Record a failure that took `seconds`."""
        self._failures += 1
        self._lost += seconds
        # Neither is reset when the breaker opens: after the pause one failure opens it again.
        if self._pause and (self._failures >= self._limit or self._lost >= self._patience):
            self._until = self._clock() + max(self._pause, seconds)
