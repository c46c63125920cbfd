"""Decide when an event is due: the view is over the budget and has grown enough since the last event.

An event that would not pay yet may wait, but only until the view is a quarter over the budget: the budget is a promise.
Only with `only_if_it_pays` does money come first; an event that does not pay is then never made.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from ..config import FocusConfig
from ..pipeline.budget import pinned_spans
from ..pipeline.legal import objection
from .conversation import Conversation
from .gate import Verdict, calls_to_come
from .money import Money
from .proposal import Proposal

Cause: TypeAlias = Literal[
    "compressed", "followed", "restored", "budget", "growth", "money", "needed", "pinned", "illegal", "draft", "store"
]
"""Why something happened or did not: spans were dropped here, or by another session; some came back; the view is within
budget, grew too little, or would not pay; every span is needed or none may be dropped; the provider would refuse the
view; the draft or the store failed."""

_LATEST = 1.25
"""Multiple of the budget up to which an event that does not pay may still wait."""
_NEAR_THE_WINDOW = 0.9
BYTES_PER_TOKEN = 3
"""A low estimate, good enough to decide when to ask for sketches."""


class Judgement(NamedTuple):
    due: bool
    cause: Cause
    why: str
    verdict: Verdict | None = None
    """Estimated gain and cost of an event; None if the model's price is unknown."""
    has_sketches: bool = False
    """True if the conversation's marked sketches are to be applied, so that no draft is needed."""


class Growth(NamedTuple):
    """Growth of a history since it was last read."""

    tokens: int = 0
    """Tokens counted so far."""
    most: int = 0
    """Most tokens that the uncounted rest can have: no token is shorter than a byte."""
    step: int = 0
    """Tokens of the newest step, counted or estimated."""


def further(config: FocusConfig, ahead: float, step: int) -> int:
    """Tokens ahead of an event at which sketches are requested: a share of the budget, or a step like the last."""
    return max(int((1 - ahead) * config.budget), step)


class Rule:
    """Decides when to compress. `only_if_it_pays` puts money before the budget."""

    def __init__(self, config: FocusConfig, money: Money, *, growth: float, only_if_it_pays: bool) -> None:
        self._config = config
        self._money = money
        self._needed = growth * config.budget
        self._latest = int(_LATEST * config.budget)
        self._only_if_it_pays = only_if_it_pays

    def judge(self, conversation: Conversation, *, cold: bool, further: int = 0) -> Judgement:
        """Judge whether an event is due now or, with `further`, one call and that many tokens later."""
        tokens = conversation.tokens + further
        if tokens <= self._config.budget:
            return Judgement(False, "budget", "within budget")
        is_late = False
        if marked := conversation.marked:
            now = self._weighed(tokens, self._money.of_marked(conversation, marked, cold=cold))
            is_late = now.due
            if now.due and not self.is_stale(conversation, marked, cold=cold):
                return now._replace(due=not further, has_sketches=True)
        last = conversation.last_event
        calls = calls_to_come(conversation.reader.newest + bool(further))
        verdict = self._money.of_event(conversation, tokens, calls=calls, cold=cold)
        if last and (grown := tokens - last.tokens_after) < self._needed and not is_late:
            why = f"only {max(grown, 0)} new tokens since the last event, {self._needed:.0f} are needed"
            return Judgement(False, "growth", why, verdict)
        if last and last.key == conversation.keys[conversation.settled - 1] and not further:
            return Judgement(False, "growth", "no new step since the last event", verdict)
        return self._weighed(tokens, verdict, self._owed(conversation, tokens, verdict, calls))

    def is_stale(self, conversation: Conversation, proposal: Proposal, *, cold: bool) -> bool:
        """True if these sketches lose money and fresh ones, paid for again, would do better.

        Sketches judge only the steps they were shown. Everything later stays, and is read again behind the dropped
        spans. If money comes first, no fresh ones are bought until the old ones have paid for themselves.
        """
        if proposal.result.failure is not None or proposal.moment.tokens == conversation.tokens:
            return False
        theirs = self._money.of_marked(conversation, proposal, cold=cold)
        calls = calls_to_come(conversation.reader.newest)
        fresh = self._money.of_event(conversation, conversation.tokens, calls=calls, cold=cold)
        if theirs is None or fresh is None or theirs.pays:
            return False
        if self._only_if_it_pays and self._owed(conversation, conversation.tokens, fresh, calls):
            return False
        return fresh.net > theirs.net

    def is_quiet(self, conversation: Conversation | None, more: Growth, *, ahead: float) -> bool:
        """True if nothing can be due, now or soon, for a history that grew since it was read."""
        if callable(self._config.tokens):  # a custom counter may find more tokens than bytes
            return False
        budget = self._config.budget
        tokens = more.tokens + (conversation.tokens if conversation else 0)
        if tokens + more.most > budget:
            return False
        if ahead == 1 or (conversation and conversation.drew_ahead):
            return True
        soon = more.most // BYTES_PER_TOKEN + further(self._config, ahead, more.step)
        return tokens + soon <= budget

    def obstacle(self, conversation: Conversation) -> Judgement | None:
        """Return why sketches would be useless here, or None."""
        now = conversation.now()
        if illegal := objection(now.view, now.history.format):
            return Judgement(False, "illegal", illegal)
        history = now.remaining()
        if len(pinned_spans(history, self._config.pin)) == len(history.spans):
            return Judgement(False, "pinned", "no step may be dropped")
        return None

    def judge_proposal(self, conversation: Conversation, proposal: Proposal, *, cold: bool) -> Judgement:
        """Judge whether to apply the sketches' proposal."""
        change = proposal.change
        if change.cut == conversation.cut:
            return Judgement(False, "needed", "every step is needed")
        if change.tokens >= conversation.tokens:
            return Judgement(False, "needed", "without the steps that are not needed the view would be no shorter")
        if proposal.illegal:
            return Judgement(False, "illegal", f"the view would be refused: {proposal.illegal}")
        return self._weighed(conversation.tokens, self._money.of_change(conversation, change, cold=cold))

    def _weighed(self, tokens: int, verdict: Verdict | None, owed: float = 0.0) -> Judgement:
        if verdict is None:
            return Judgement(True, "compressed", "over budget")
        window = self._money.price.context
        if window is not None and tokens > _NEAR_THE_WINDOW * window:
            return Judgement(True, "compressed", "near the model's window", verdict)
        if verdict.pays and not owed:
            return Judgement(True, "compressed", f"over budget: {verdict.why}", verdict)
        why = f"the last event has not paid for itself yet, {owed:.0f} tokens' worth to go" if owed else verdict.why
        if self._only_if_it_pays:
            return Judgement(False, "money", f"over budget, but only_if_it_pays is set: {why}", verdict)
        if tokens > self._latest:
            return Judgement(True, "compressed", f"a quarter over budget, so made in any case: {why}", verdict)
        return Judgement(False, "money", f"over budget, may wait until {self._latest} tokens: {why}", verdict)

    def _owed(self, conversation: Conversation, tokens: int, verdict: Verdict | None, calls: int) -> float:
        """Return the debt to recover before more is spent, so that at most one event is ever unpaid.

        0 if the history has grown so long that a single call would save more than is at stake: sketches that once led
        to nothing must not switch compression off for good.
        """
        owed = max(self._money.in_tokens(-self._money.balance(conversation)), 0.0)
        at_stake = owed + self._money.in_tokens(self._money.sketches(tokens))
        return 0.0 if verdict and verdict.gain > calls * at_stake else owed
