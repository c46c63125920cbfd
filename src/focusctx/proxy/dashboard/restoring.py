"""Restore dropped spans on request."""

from __future__ import annotations

import asyncio
import time
from weakref import WeakKeyDictionary

from ..sessions import Live


class Restoring:
    """Restores spans, and remembers which: an event's own record is never changed."""

    def __init__(self) -> None:
        self._asked: WeakKeyDictionary[Live, dict[int, float]] = WeakKeyDictionary()

    def of(self, live: Live) -> dict[int, float]:
        """Return the time at which each span was restored."""
        return dict(self._asked.get(live, ()))

    async def restore(self, live: Live, span: int) -> str | None:
        """Restore a dropped span for the rest of the conversation, or return why not. May raise `StoreError`."""
        if span in self.of(live):
            return f"s_{span} is restored already"
        conversation = live.conversation
        if conversation is None or not await asyncio.to_thread(conversation.restore, span):
            return f"s_{span} is not dropped any more"
        self._asked.setdefault(live, {})[span] = time.time()
        return None
