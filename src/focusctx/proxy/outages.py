"""Log failing providers without flooding the log: a line when it begins, one per interval while it lasts."""

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
        """When the last line about a provider was logged."""
        self._unlogged: dict[str, int] = {}
        """Failures since then."""

    def failed(self, provider: str, why: str) -> None:
        """Note that a request failed; `why` holds no URL and no key."""
        now = self._clock()
        logged = self._logged.get(provider)
        if logged is not None and now - logged < INTERVAL:
            self._unlogged[provider] = self._unlogged.get(provider, 0) + 1
            return
        self._logged[provider] = now
        more = self._unlogged.pop(provider, 0)
        since = f" ({more:,} more failed since the last line about it)" if more else ""
        _log.warning("%s: %s%s", provider, why, since)
