"""Log failing providers without flooding the log: a line at the first failure, then one per interval."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_log = logging.getLogger("focusctx.proxy")

INTERVAL = 60.0
"""Seconds between two lines about the same provider."""


class Outages:
    """Counts the failed requests of each provider."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged: dict[str, float] = {}
        """Time of the last line about each provider."""
        self._unlogged: dict[str, int] = {}
        """Failures of each provider since that line."""

    def failed(self, provider: str, why: str) -> None:
        """Record a failed request; `why` contains no URL and no key."""
        now = self._clock()
        logged = self._logged.get(provider)
        if logged is not None and now - logged < INTERVAL:
            self._unlogged[provider] = self._unlogged.get(provider, 0) + 1
            return
        self._logged[provider] = now
        more = self._unlogged.pop(provider, 0)
        since = f" ({more:,} more failed since the last line about it)" if more else ""
        _log.warning("%s: %s%s", provider, why, since)
