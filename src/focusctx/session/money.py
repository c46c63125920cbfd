"""Costs and savings of a conversation's events, at the prices of the agent's model and of the draft."""

from __future__ import annotations

from ..config import FocusConfig
from ..pipeline.draft import build_prompt
from ..pipeline.split import Count
from ..prices import Price
from ..types import History
from .conversation import Conversation
from .gate import FREE, Verdict, calls_to_come, weigh
from .moment import Change
from .proposal import Proposal

_USUAL_SHARE = 0.5
"""Share of the tokens since the last event that is expected to be dropped, until an event has dropped something."""
_ROUNDING = 1e-12


class Money:
    def __init__(self, price: Price, config: FocusConfig, draft: Price | None, count: Count) -> None:
        self.price = price
        self._config = config
        self._draft = draft
        self._instructions = count(build_prompt(History(goal="", spans=()), config).system) if self._draft else 0

    def sketches(self, tokens: int) -> float | None:
        """Estimate the cost of an event's sketches in USD; None if the draft's price is unknown."""
        if self._draft is None:
            return None
        config = self._config
        shown = self._instructions + min(tokens, config.draft_window)
        return self._draft.cost(shown, config.rollouts * config.sketch_tokens // 4)

    def of_event(self, conversation: Conversation, tokens: int, *, calls: int, cold: bool) -> Verdict | None:
        """Weigh an event on a view of `tokens` before its drops are known."""
        last = conversation.last_event
        if last and last.dropped:
            dropped = int(tokens * (last.tokens_before - last.tokens_after) / last.tokens_before)
        else:  # do not expect to drop what the last event found needed
            grown = tokens - last.tokens_after if last else tokens
            dropped = int(_USUAL_SHARE * max(grown, 0))
        sketches = self.in_tokens(self.sketches(tokens))
        return self._weigh(dropped, tokens - dropped, calls, cold=cold, sketches=sketches)

    def of_change(self, conversation: Conversation, change: Change, *, cold: bool) -> Verdict | None:
        """Weigh a change whose sketches are already paid for: only the moved prefix costs."""
        moved = conversation.moved_by(change.tokens, change.unmoved)
        calls = calls_to_come(conversation.reader.newest)
        return self._weigh(conversation.tokens - change.tokens, moved, calls, cold=cold)

    def of_marked(self, conversation: Conversation, marked: Proposal, *, cold: bool) -> Verdict | None:
        """Weigh sketches that were sampled earlier: everything since then stays, and is read again."""
        since = conversation.tokens - marked.moment.tokens
        moved = max(marked.behind + since - conversation.new_tokens, 0)
        return self._weigh(marked.saves, moved, calls_to_come(conversation.reader.newest), cold=cold)

    def balance(self, conversation: Conversation) -> float:
        """USD the conversation has saved, less its costs, before the coming call.

        Computed from the last event, so that every process gets the same number: each step since was one call, and
        saved at least what reading the dropped tokens from a warm cache would have cost.
        """
        last = conversation.last_event
        if last is None:
            return -conversation.spent
        calls = max(conversation.reader.newest - last.index - 1, 0)
        balance = last.balance + calls * self._call_saves(conversation, conversation.tokens) - conversation.spent
        return 0.0 if abs(balance) < _ROUNDING else balance

    def balance_after(self, conversation: Conversation, change: Change | None, *, cold: bool) -> float:
        """Return the balance after the coming call, if the view changes to `change`."""
        after = change.tokens if change else conversation.tokens
        again = conversation.moved_by(after, change.unmoved) if change and not cold else 0
        reread = (self.price.cache_write - self.price.cache_read) * again * self.price.input / 1_000_000
        return self.balance(conversation) + self._call_saves(conversation, after) - reread

    def in_tokens(self, dollars: float | None) -> float:
        """Convert USD to input tokens of the agent's model; an unknown price counts as 0."""
        return dollars * 1_000_000 / self.price.input if dollars and self.price.input else 0.0

    def _call_saves(self, conversation: Conversation, view: int) -> float:
        """USD that one call with a view of `view` tokens saves against the full history."""
        return self.price.cache_read * (conversation.reader.tokens - view) * self.price.input / 1_000_000

    def _weigh(self, dropped: int, suffix: int, calls: int, *, cold: bool, sketches: float = 0.0) -> Verdict | None:
        if self.price is FREE:
            return None
        return weigh(self.price, dropped=dropped, suffix=suffix, calls=calls, sketches=sketches, cold=cold)
