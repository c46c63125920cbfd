"""Savings and costs of a conversation, call by call, at the prices of the agent's model.

Each call is compared with one that sends the full history. The dropped tokens would have been read from the provider's
cache, or written to it again once it had gone cold. Tokens behind a change must be written again too. The state of the
cache is unknown at a conversation's first call; it is assumed to be warm, which saves least.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..prices import Price
from .store import Totals

if TYPE_CHECKING:
    from .conversation import Conversation


class Ledger:
    """Sums totals and passes each one on: from a conversation to its session, and from there to the store."""

    def __init__(self, price: Price, pass_on: Callable[[Totals], object]) -> None:
        self.totals = Totals()
        self._price = price
        self._pass_on = pass_on
        self._lock = threading.Lock()

    def call(self, conversation: Conversation, *, cold: bool) -> None:
        """Record one call of the agent with the conversation's view."""
        read, write = self._price.cache_read, self._price.cache_write
        left_out = conversation.reader.tokens - conversation.tokens
        self.add(
            Totals(
                events=int(conversation.unmoved is not None),
                tokens_saved=left_out,
                saved=self._dollars((write if cold else read) * left_out),
                rereads=0.0 if cold else self._dollars((write - read) * conversation.moved),
            )
        )

    def drew(self, cost: float | None) -> None:
        """Record the cost of sketches, used or not; None for an unknown price."""
        self.add(Totals(unpriced=1) if cost is None else Totals(drafts=cost))

    def recalled(self, tokens: int) -> None:
        """Record the cost of recalled spans, written to the cache once."""
        self.add(Totals(recalls=self._dollars(self._price.cache_write * tokens)))

    def add(self, added: Totals) -> None:
        with self._lock:
            self.totals += added
        self._pass_on(added)

    def _dollars(self, tokens: float) -> float:
        return tokens * self._price.input / 1_000_000
