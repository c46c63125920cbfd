"""What a session saved and spent, call by call, at the prices of the agent's model.

Each call is held against the one with the full history. What was left out would have been read from the provider's
cache, or written to it again once that had gone cold. What stands behind a change has to be written again too. Of
a conversation's first call nothing is known of the cache; it is taken to be warm, which saves least.
"""

from __future__ import annotations

from ..prices import Price
from .conversation import Conversation
from .store import Totals


class Ledger:
    def __init__(self, price: Price) -> None:
        self._price = price
        self.totals = Totals()

    def call(self, conversation: Conversation, *, cold: bool) -> Totals:
        """One call of the agent with the conversation's view."""
        read, write = self._price.cache_read, self._price.cache_write
        left_out = conversation.reader.tokens - conversation.tokens
        return self._add(
            Totals(
                events=int(conversation.unmoved is not None),
                tokens_saved=left_out,
                saved=self._dollars((write if cold else read) * left_out),
                rereads=0.0 if cold else self._dollars((write - read) * conversation.moved),
            )
        )

    def drew(self, cost: float | None) -> Totals:
        """Book sketches that were paid for, used or not; None: at an unknown price."""
        return self._add(Totals(unpriced=1) if cost is None else Totals(drafts=cost))

    def recalled(self, tokens: int) -> Totals:
        """Spans that came back, written once."""
        return self._add(Totals(recalls=self._dollars(self._price.cache_write * tokens)))

    def _add(self, added: Totals) -> Totals:
        self.totals += added
        return added

    def _dollars(self, tokens: float) -> float:
        return tokens * self._price.input / 1_000_000
