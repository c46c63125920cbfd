"""Spans that somebody wants back."""

from __future__ import annotations

import asyncio
import time
from weakref import WeakKeyDictionary

from ..sessions import Live


class Restoring:
    """Gives spans back, and remembers which: an event's own record is never changed."""

    def __init__(self) -> None:
        self._asked: WeakKeyDictionary[Live, dict[int, float]] = WeakKeyDictionary()

    def of(self, live: Live) -> dict[int, float]:
        """When which span was asked for."""
        return dict(self._asked.get(live, ()))

    async def restore(self, live: Live, span: int) -> str | None:
        """Have a dropped span back for the rest of the conversation; if that cannot be, why. May raise `StoreError`."""
        if span in self.of(live):
            return f"s_{span} is restored already"
        conversation = live.conversation
        if conversation is None or not await asyncio.to_thread(conversation.restore, span):
            return f"s_{span} is not dropped any more"
        self._asked.setdefault(live, {})[span] = time.time()
        return None
