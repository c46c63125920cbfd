"""Events: when one is due, whether it pays, and the record of what happened and what it saved.

An event is due when the view is over the budget and has grown enough since the last event. An event that would not pay
yet may wait, but only until the view is a quarter over the budget (half over, while large results are not answered):
the budget is a promise. Only with `only_if_it_pays` does money come first; an event that does not pay is then never
made.

Does it pay? A provider's cache holds the prompt up to the first token that changed. Dropping spans makes the provider
read everything after the first drop again, once, at the write price `w`; from then on every call is cheaper by the
read price `r` of the dropped tokens. With D dropped tokens, S kept tokens behind the first drop, C for the sketches (in
input tokens of the agent's model) and k calls to come, dropping pays when `k·r·D > (w − r)·S + C`. When the cache has
gone cold everything is read again anyway, and dropping always pays.

Every change of a view is recorded, and so is every reason why a view over budget was left unchanged. Savings are
counted call by call, and written to the store in batches: writing to a file or server takes longer than making a view.
The rest is written when a conversation is released, a session is closed or the program ends.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..compressor import Focus
from ..pipeline.draft import build_prompt
from ..pipeline.keep import target_tokens
from ..prices import Price
from ..types import History, Result
from .fork import ForkSafe
from .recall import ranges
from .store import PerStore, Store, Totals

if TYPE_CHECKING:
    from .conversation import Conversation
    from .proposal import Change, EventEvidence, Proposal

Cause: TypeAlias = Literal[
    "compressed",
    "followed",
    "restored",
    "budget",
    "growth",
    "money",
    "newest",
    "needed",
    "pinned",
    "illegal",
    "draft",
    "store",
    "error",
]
"""Why something happened or did not: spans were dropped here, or by another session; some came back; the view is within
budget, grew too little, or would not pay; the newest results are large and not answered yet; every span is needed or
none may be dropped; the provider would refuse the view; the draft or the store failed, or something unforeseen did."""

FREE = Price(input=0.0, output=0.0)
"""The price of an unpriced model: nothing is cached, nothing costs, and every event is worth making."""
BYTES_PER_TOKEN = 3
"""A low estimate, good enough to decide when to ask for sketches."""
_LATEST = 1.25
"""Multiple of the budget up to which an event that does not pay may still wait."""
_LATEST_FOR_RESULTS = 1.5
"""Multiple up to which it may wait for the answer to large results."""
_LARGE = 0.5
"""Share of the target from which new results are large. They stay whole until the agent has answered them, and leave
little room for the rest: an event one call later does better."""
_LEAST_SAVED = 0.1
"""Share of the view that an event must save: below it the prompt's prefix is worth more."""
_NEAR_THE_WINDOW = 0.9
_USUAL_SHARE = 0.5
"""Share of the tokens since the last event that is expected to be dropped, until an event has dropped something."""
_ROUNDING = 1e-12
_REMEMBERED = 1000
_BETWEEN = 5.0
"""Seconds between writes of totals."""
_NOTHING = Totals()
_log = logging.getLogger("focusctx")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Gain and cost of an event, in input tokens of the agent's model."""

    pays: bool
    gain: float
    cost: float
    why: str

    @property
    def net(self) -> float:
        return self.gain - self.cost


@dataclass(frozen=True, slots=True)
class Judgement:
    """A decision whether an event is due, and the reason."""

    due: bool
    cause: Cause
    why: str
    verdict: Verdict | None = None
    """Estimated gain and cost of an event; None if the model's price is unknown."""
    has_sketches: bool = False
    """True if the conversation's deferred proposal is to be applied, so that no draft is needed."""


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """A changed view, or the reason why a view over budget did not change."""

    happened: bool
    """True if the view changed; only then has its prefix moved."""
    cause: Cause
    """The kind of change or reason, in one word or two."""
    why: str
    """The reason in words."""
    conversation: str
    """The conversation's key, as in the log and on the dashboard."""
    span: int
    """The newest span's number at that time."""
    tokens_before: int
    """Size of the view before."""
    tokens_after: int
    """Size of the view after; the same if nothing happened."""
    verdict: Verdict | None = None
    """Estimated gain and cost; None if the price of the agent's model is unknown."""
    evidence: EventEvidence | None = None
    """The evidence from which `result` is made, if sketches were read."""
    steps: int = 1
    """Number of steps in a row with this reason."""

    @property
    def result(self) -> Result | None:
        """The result of the event, with its evidence, if sketches were read. Made on first access."""
        return self.evidence.result if self.evidence else None

    def repeats(self, last: SessionEvent) -> bool:
        """True if again nothing happened for the same reason, and no sketches were read."""
        same = (self.happened, self.cause, self.conversation) == (last.happened, last.cause, last.conversation)
        return same and not self.happened and self.evidence is None and last.evidence is None


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of a history since it was last read."""

    tokens: int = 0
    """Tokens counted so far."""
    most: int = 0
    """Most tokens that the uncounted rest can have: no token is shorter than a byte."""
    step: int = 0
    """Tokens of the newest step, counted or estimated."""


def weigh(price: Price, *, dropped: int, suffix: int, calls: int, sketches: float, cold: bool) -> Verdict:
    """Judge whether an event pays, by the formula above."""
    gain = calls * price.cache_read * dropped
    if cold:
        return Verdict(True, price.cache_write * dropped + gain, sketches, "the provider's cache has gone cold")
    cost = (price.cache_write - price.cache_read) * suffix + sketches
    if gain > cost:
        return Verdict(True, gain, cost, f"pays within {calls} calls")
    why = f"does not pay: {calls} calls to come would save {gain:.0f} tokens' worth, and it costs {cost:.0f}"
    return Verdict(False, gain, cost, why)


def calls_to_come(spans: int) -> int:
    """Estimate the calls the agent will still make: as many as it has made so far."""
    return max(spans, 1)


class Economics:
    """Decides when to compress, at the prices of the agent's model and of the draft. Options as for `Session`."""

    def __init__(self, price: Price, focus: Focus, *, ahead: float, growth: float, only_if_it_pays: bool) -> None:
        config = self._config = focus.config
        self.price = price
        self._draft = focus.draft_price
        prompt = build_prompt(History(goal="", spans=()), config) if self._draft else None
        self._instructions = focus.count(prompt.system) if prompt else 0
        if getattr(focus.draft, "instant", False):
            ahead = 1.0
        self.looks_ahead = ahead < 1
        self._ahead = int((1 - ahead) * config.budget)
        self._needed = growth * config.budget
        self._latest = int(_LATEST * config.budget)
        self._large = _LARGE * (target_tokens(config) or float("inf"))
        self._only_if_it_pays = only_if_it_pays

    # Is an event due?

    def judge(self, conversation: Conversation, *, cold: bool, further: int = 0) -> Judgement:
        """Judge whether an event is due now or, with `further`, one call and that many tokens later."""
        tokens = conversation.tokens + further
        if tokens <= self._config.budget:
            return Judgement(False, "budget", "within budget")
        is_late = False
        if deferred := conversation.deferred:
            now = self._judged(tokens, self._of_earlier(conversation, deferred, cold=cold))
            is_late = now.due
            if now.due and not self.is_stale(conversation, deferred, cold=cold):
                return replace(now, due=not further, has_sketches=True)
        last = conversation.last_event
        verdict = self._of_event(conversation, cold=cold, further=further)
        if last and (grown := tokens - last.tokens_after) < self._needed and not is_late:
            why = f"only {max(grown, 0)} new tokens since the last event, {self._needed:.0f} are needed"
            return Judgement(False, "growth", why, verdict)
        if last and last.key == conversation.keys[conversation.settled - 1] and not further:
            return Judgement(False, "growth", "no new step since the last event", verdict)
        judged = self._judged(tokens, verdict, self._owed(conversation, verdict, further))
        latest = self._latest_for_results(conversation)
        if judged.due and not further and tokens <= latest:
            why = f"over budget, may wait until {latest} tokens: large results are not answered yet"
            return Judgement(False, "newest", why, verdict)
        return judged

    def is_due_soon(self, conversation: Conversation) -> bool:
        """True if an event may be due at the next call, so that its sketches should be asked for now.

        Not while large results are the newest step: it stays whole, so sketches say nothing of it, and at the time of
        the event it would be old.
        """
        if self._latest_for_results(conversation):
            return False
        return self.judge(conversation, cold=False, further=self._margin(conversation.new_tokens)).due

    def is_quiet(self, conversation: Conversation | None, more: Growth) -> bool:
        """True if nothing can be due, now or soon, for a history that grew by `more` since it was read."""
        if callable(self._config.tokens):  # a custom counter may find more tokens than bytes
            return False
        budget = self._config.budget
        tokens = more.tokens + (conversation.tokens if conversation else 0)
        if tokens + more.most > budget:
            return False
        if not self.looks_ahead or (conversation and conversation.drew_ahead):
            return True
        return tokens + more.most // BYTES_PER_TOKEN + self._margin(more.step) <= budget

    def is_stale(self, conversation: Conversation, proposal: Proposal, *, cold: bool) -> bool:
        """True if these sketches lose money and fresh ones, paid for again, would do better.

        Sketches judge only the steps they were shown. Everything later stays, and is read again behind the dropped
        spans. If money comes first, no fresh ones are bought until the old ones have paid for themselves.
        """
        if proposal.drafted.failure is not None or proposal.snapshot.tokens == conversation.tokens:
            return False
        theirs = self._of_earlier(conversation, proposal, cold=cold)
        fresh = self._of_event(conversation, cold=cold)
        if theirs is None or fresh is None or theirs.pays:
            return False
        if self._only_if_it_pays and self._owed(conversation, fresh):
            return False
        return fresh.net > theirs.net

    def judge_proposal(self, conversation: Conversation, proposal: Proposal, *, cold: bool) -> Judgement:
        """Judge whether to apply the sketches' proposal."""
        change = proposal.change
        if change.left_out == conversation.left_out:
            return Judgement(False, "needed", "every step is needed")
        saved = 1 - change.tokens / conversation.tokens if conversation.tokens else 0.0
        if saved < (_LEAST_SAVED if self._config.target is not None else 0) or change.tokens >= conversation.tokens:
            why = f"leaving out what is not needed would save {max(saved, 0):.0%}, too little to change the prompt for"
            return Judgement(False, "needed", why)
        if proposal.illegal:
            return Judgement(False, "illegal", f"the view would be refused: {proposal.illegal}")
        verdict = self._of_view(conversation, change.tokens, change.unmoved, cold=cold)
        return self._judged(conversation.tokens, verdict)

    def is_cold(self, conversation: Conversation, now: float) -> bool:
        """True if the provider's cache has dropped the prefix since the last call."""
        last, lifetime = conversation.last_call, self.price.cache_ttl
        return last is not None and lifetime is not None and now - last.time > lifetime

    def _judged(self, tokens: int, verdict: Verdict | None, owed: float = 0.0) -> Judgement:
        if verdict is None:
            return Judgement(True, "compressed", "over budget")
        window = self.price.context
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

    def _latest_for_results(self, conversation: Conversation) -> int:
        """Return the size up to which an event waits for the answer to the newest results; 0 if they are small."""
        if conversation.reader.newest_tokens <= self._large:
            return 0
        window = self.price.context or float("inf")
        return int(min(_LATEST_FOR_RESULTS * self._config.budget, _NEAR_THE_WINDOW * window))

    def _margin(self, step: int) -> int:
        """Tokens ahead of an event at which sketches are requested: a share of the budget, or a step like the last if
        that is larger, up to twice the share. Whatever comes after the request was not seen by the draft."""
        return max(self._ahead, min(step, 2 * self._ahead))

    # How much is it worth?

    def sketches(self, tokens: int) -> float | None:
        """Estimate the cost of an event's sketches in USD; None if the draft's price is unknown."""
        if self._draft is None:
            return None
        shown = self._instructions + min(tokens, self._config.draft_window)
        return self._draft.cost(shown, self._config.rollouts * self._config.sketch_tokens // 4)

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
        reread = self.price.cost((self.price.cache_write - self.price.cache_read) * again)
        return self.balance(conversation) + self._call_saves(conversation, after) - reread

    def in_tokens(self, dollars: float | None) -> float:
        """Convert USD to input tokens of the agent's model; an unknown price counts as 0."""
        return dollars * 1_000_000 / self.price.input if dollars and self.price.input else 0.0

    def _of_event(self, conversation: Conversation, *, cold: bool, further: int = 0) -> Verdict | None:
        """Weigh an event before its drops are known, now or, with `further`, one call and that many tokens later."""
        tokens, last = conversation.tokens + further, conversation.last_event
        if last and last.dropped:
            dropped = int(tokens * (last.tokens_before - last.tokens_after) / last.tokens_before)
        else:  # do not expect to drop what the last event found needed
            grown = tokens - last.tokens_after if last else tokens
            dropped = int(_USUAL_SHARE * max(grown, 0))
        calls = calls_to_come(conversation.reader.newest + bool(further))
        sketches = self.in_tokens(self.sketches(tokens))
        return self._weigh(dropped, tokens - dropped, calls, cold=cold, sketches=sketches)

    def _of_earlier(self, conversation: Conversation, proposal: Proposal, *, cold: bool) -> Verdict | None:
        """Weigh sketches that were sampled earlier: everything since then stays, and is read again."""
        since = conversation.tokens - proposal.snapshot.tokens
        return self._of_view(conversation, proposal.change.tokens + since, proposal.change.unmoved, cold=cold)

    def _of_view(self, conversation: Conversation, tokens: int, unmoved: int, *, cold: bool) -> Verdict | None:
        """Weigh another view whose sketches are already paid for: only the moved prefix costs."""
        calls = calls_to_come(conversation.reader.newest)
        moved = conversation.moved_by(tokens, unmoved)
        return self._weigh(conversation.tokens - tokens, moved, calls, cold=cold)

    def _weigh(self, dropped: int, suffix: int, calls: int, *, cold: bool, sketches: float = 0.0) -> Verdict | None:
        if self.price is FREE:
            return None
        return weigh(self.price, dropped=dropped, suffix=suffix, calls=calls, sketches=sketches, cold=cold)

    def _owed(self, conversation: Conversation, verdict: Verdict | None, further: int = 0) -> float:
        """Return the debt to recover before an event is made, so that at most one event is ever unpaid.

        0 if the history has grown so long that a single call would save more than is at stake: sketches that once led
        to nothing must not switch compression off for good.
        """
        owed = max(self.in_tokens(-self.balance(conversation)), 0.0)
        at_stake = owed + self.in_tokens(self.sketches(conversation.tokens + further))
        calls = calls_to_come(conversation.reader.newest + bool(further))
        return 0.0 if verdict and verdict.gain > calls * at_stake else owed

    def _call_saves(self, conversation: Conversation, view: int) -> float:
        """USD that one call with a view of `view` tokens saves against the full history."""
        return self.price.cost(self.price.cache_read * (conversation.reader.tokens - view))


class Log:
    """The latest events of all conversations of a session, newest last; each conversation also keeps its own."""

    def __init__(self) -> None:
        self.events: deque[SessionEvent] = deque(maxlen=_REMEMBERED)
        self._lock = threading.Lock()

    def add(
        self,
        conversation: Conversation,
        judgement: Judgement,
        evidence: EventEvidence | None = None,
        *,
        moved_from: int | None = None,
    ) -> None:
        """Record a judgement and log it; `moved_from` is the previous size if the view changed.

        A repeated reason replaces its last entry, so that it does not flood the list or the log.
        """
        event = SessionEvent(
            happened=moved_from is not None,
            cause=judgement.cause,
            why=judgement.why,
            conversation=conversation.key,
            span=conversation.reader.newest,
            tokens_before=conversation.tokens if moved_from is None else moved_from,
            tokens_after=conversation.tokens,
            verdict=judgement.verdict,
            evidence=evidence,
        )
        own = conversation.events
        with self._lock:
            last = own[-1] if own else None
            if last is not None and event.repeats(last):
                own[-1] = event = replace(event, steps=last.steps + 1)
                self._replace(last, event)
                return
            own.append(event)
            self.events.append(event)
        why = event.why
        if evidence is not None and evidence.regrets:
            why += f"; {ranges(evidence.regrets)} looked up again what had been cut, so it stays whole"
        what = f"{event.tokens_before:,} → {event.tokens_after:,} tokens" if event.happened else "left unchanged"
        _log.info("conversation %s, step %d: %s (%s: %s)", event.conversation, event.span, what, event.cause, why)

    def forget(self, conversation: Conversation) -> None:
        """Keep only the numbers of a released conversation: the evidence holds its whole history."""
        gone = {id(event) for event in conversation.events}
        with self._lock:
            for place, event in enumerate(self.events):
                if id(event) in gone and event.evidence is not None:
                    self.events[place] = replace(event, evidence=None)

    def _replace(self, old: SessionEvent, new: SessionEvent) -> None:
        for place in range(len(self.events) - 1, -1, -1):
            if self.events[place] is old:
                self.events[place] = new
                return


class Ledger:
    """Savings and costs, call by call, passed on from a conversation to its session, and from there to the store.

    Each call is compared with one that sends the full history. The dropped tokens would have been read from the
    provider's cache, or written to it again once it had gone cold. Tokens behind a change must be written again too.
    The state of the cache is unknown at a conversation's first call; it is assumed to be warm, which saves least.
    """

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
                saved=self._price.cost((write if cold else read) * left_out),
                rereads=0.0 if cold else self._price.cost((write - read) * conversation.moved),
            )
        )

    def drew(self, cost: float | None) -> None:
        """Record the cost of sketches, used or not; None for an unknown price."""
        self.add(Totals(unpriced=1) if cost is None else Totals(drafts=cost))

    def recalled(self, tokens: int) -> None:
        """Record the cost of recalled spans, written to the cache once."""
        self.add(Totals(recalls=self._price.cost(self._price.cache_write * tokens)))

    def add(self, added: Totals) -> None:
        with self._lock:
            self.totals += added
        self._pass_on(added)


class PendingTotals(ForkSafe):
    """Savings and costs since the last write, by tenant."""

    def __init__(self) -> None:
        super().__init__()
        self._totals: dict[str, Totals] = {}
        self._written_at = float("-inf")

    @property
    def is_due(self) -> bool:
        return bool(self._totals) and time.monotonic() - self._written_at > _BETWEEN

    def hurry(self) -> None:
        """Make the next write due at once."""
        self._written_at = float("-inf")

    def add(self, store: Store, tenant: str, added: Totals) -> None:
        if added != _NOTHING:
            with self._lock:
                self._totals[tenant] = self._totals.get(tenant, _NOTHING) + added
                if getattr(store, "lasting", True):
                    _unwritten[self] = store

    def write(self, store: Store) -> None:
        with self._lock:
            totals, self._totals, self._written_at = self._totals, {}, time.monotonic()
            _unwritten.pop(self, None)
        for tenant, added in totals.items():
            try:
                store.add(tenant, added)
            except Exception as error:  # neither the agent nor the end of the program may fail because of this
                _log.warning("savings could not be stored, so totals will be too low: %s", error)


pending_totals = PerStore(PendingTotals)
"""Returns the instance that all sessions over a store share."""
_unwritten: dict[PendingTotals, Store] = {}
"""Stores with unwritten totals, kept alive until they are written."""


@atexit.register
def _write_all() -> None:
    for totals, store in list(_unwritten.items()):
        totals.write(store)


def _forget_all() -> None:
    pending_totals.made.clear()
    _unwritten.clear()


if hasattr(os, "register_at_fork"):  # the parent writes its own totals
    os.register_at_fork(after_in_child=_forget_all)
