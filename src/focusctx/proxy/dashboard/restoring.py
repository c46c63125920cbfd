"""Spans that somebody wants back."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict

from ..sessions import Live


class Restoring:
    """Gives spans back, and remembers which: an event's own record is never changed."""

    def __init__(self) -> None:
        self._asked: defaultdict[str, dict[tuple[str, int], float]] = defaultdict(dict)

    def of(self, live: Live, conversation: str | None = None) -> dict[int, float]:
        """When which span was asked for; without a conversation, in the one that the newest event speaks of."""
        wanted = _newest(live) if conversation is None else conversation
        asked = self._asked.get(live.id, {})
        return {span: at for (found, span), at in asked.items() if found == wanted}

    async def restore(self, live: Live, span: int, seen: str | None) -> str | None:
        """Have a dropped span back for the rest of the conversation; if that cannot be, why. May raise `StoreError`.

        `seen` is the conversation in which somebody saw it dropped, if they say so.
        """
        conversation = _newest(live)
        if seen not in (None, conversation):
            return "the agent has since gone on in another conversation"
        if (conversation, span) in self._asked.get(live.id, {}):
            return f"s_{span} is restored already"
        if not await asyncio.to_thread(live.session.restore, span):
            return f"s_{span} is not dropped any more"
        self._asked[live.id][conversation, span] = time.time()
        return None


def _newest(live: Live) -> str:
    events = live.session.events
    return events[-1].conversation if events else ""
