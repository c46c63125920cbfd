"""The steps of one call: catch up with the store, judge whether an event is due, apply sketches, and look ahead.

Written once for sync and async programs; see `runtime.py`. Nothing is locked: each call has its conversation to
itself, and if two calls decide at once, the store keeps the first decision.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..compressor import Focus
from ..errors import StoreError
from ..pipeline.decide import Drafted
from ..runtime import Runtime, W
from ..types import Result
from .conversation import Conversation, View
from .economics import Economics, Judgement
from .events import Log, PendingTotals
from .proposal import Change, Proposal, foresee, propose, up_to_date
from .sketches import Draw, draws_over
from .store import Store, StoredEvent

_log = logging.getLogger("focusctx")
_PATIENCE = 1.0
"""Seconds to wait, beyond the draft's deadline, for sketches that run on another thread or loop; and for their first
user to store a decision before others make their own."""
_TRIES = 3
_FOLLOWED = Judgement(True, "followed", "decided by another session on the same conversation")
_RESTORED = Judgement(True, "restored", "steps that were left out came back")


@dataclass(frozen=True, slots=True)
class StoredDecisions:
    """The store's decisions about a conversation, for the spans after the first `first`; None if nothing is new."""

    version: int
    first: int | None = None
    events: Sequence[StoredEvent] = ()
    restored: Collection[str] = ()
    """Keys of spans that the events dropped and that were restored."""
    passages: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Passages that were restored, by the keys of their spans."""
    is_all: bool = False
    """True if the version counts only events on this chain: then there are none further on, or in forks."""


class Steps:
    """The steps of a call, for the conversations of one session."""

    def __init__(
        self,
        focus: Focus,
        store: Store,
        *,
        economics: Economics,
        log: Log,
        totals: PendingTotals,
        noted: bool,
        clock: Callable[[], float],
    ) -> None:
        self._focus = focus
        self._store = store
        self._quick = getattr(store, "quick", False)
        self._economics = economics
        self._log = log
        self._totals = totals
        self._draws = draws_over(store)
        self._offers_recall = noted
        self._clock = clock

    def view(self, conversation: Conversation, runtime: Runtime[W]) -> Generator[W, Any, View]:
        """Return the view for the agent's next call, after an event if one is due."""
        in_touch = yield from self._catch_up(conversation, runtime)
        judgement, cold = self._judge(conversation, in_touch)
        if judgement.due:
            yield from self._event(conversation, judgement, runtime, cold=cold)
        elif judgement.cause != "budget":
            self._log.add(conversation, judgement)
        self._look_ahead(conversation, runtime, in_touch)
        conversation.ledger.call(conversation, cold=cold)
        conversation.called(self._clock())
        if self._totals.is_due:
            with suppress(StoreError):  # it will be due again
                yield runtime.call(partial(self._totals.write, self._store))
        return conversation.view()

    def peek(self, conversation: Conversation, runtime: Runtime[W]) -> Generator[W, Any, View]:
        """Return the current view without making an event or counting a call."""
        yield from self._catch_up(conversation, runtime)
        return conversation.view()

    def record_append(self, conversation: Conversation, messages: int) -> bool:
        """Record a call that only appended to the last view, up to `messages` messages in all.

        False if the history must be looked at after all: something may have been decided elsewhere.
        """
        if not self._knows_all(conversation):
            return False
        now = self._clock()
        if conversation.dropped:  # otherwise nothing is saved
            conversation.ledger.call(conversation, cold=self._is_cold(conversation, now))
        conversation.called(now, messages)
        return True

    def release(self, conversation: Conversation) -> None:
        """Stop sketches that nobody will use, and record their cost."""
        self._pay(conversation, conversation.early_draw.discard())

    def _knows_all(self, conversation: Conversation) -> bool:
        """True if all stored decisions about the conversation are loaded, and none has changed since.

        Before the first decision the store need not be asked: none is made while there is room.
        """
        if not conversation.knows_all or not conversation.version:
            return conversation.knows_all
        try:
            return self._quick and self._store.version(conversation.tenant, conversation.root) == conversation.version
        except StoreError:
            return False

    def _catch_up(self, conversation: Conversation, runtime: Runtime[W]) -> Generator[W, Any, bool]:
        """Apply the decisions of other processes and earlier sessions; False if the store could not be read."""
        in_touch = True
        read = partial(stored_decisions, self._store, conversation)
        try:
            if conversation.settled:
                conversation.learn(read() if self._quick else (yield runtime.call(read)))
        except StoreError as error:  # a store that is down must not stop the agent
            _log.warning("the store could not be read, so the last known decisions are used: %s", error)
            in_touch = False
        if conversation.decided != conversation.left_out:
            came_back = conversation.decided.shows_more_than(conversation.left_out)
            change = conversation.now().change_to(conversation.decided)
            self._change(conversation, change, _RESTORED if came_back else _FOLLOWED)
        if (place := conversation.early_draw.place) and not conversation.goes_on_from(place):
            self.release(conversation)
        if conversation.deferred and not conversation.goes_on_from(conversation.deferred.snapshot.place):
            conversation.deferred = None
        return in_touch

    def _judge(self, conversation: Conversation, in_touch: bool) -> tuple[Judgement, bool]:
        """Judge whether an event is due and possible, and whether the provider's cache has gone cold."""
        cold = self._is_cold(conversation, self._clock())
        judgement = self._economics.judge(conversation, cold=cold)
        if judgement.due and (obstacle := self._obstacle(conversation, in_touch)):
            judgement = replace(obstacle, verdict=judgement.verdict)
        return judgement, cold

    def _obstacle(self, conversation: Conversation, in_touch: bool) -> Judgement | None:
        """Return why sketches could not be used, or None, so that the draft is not asked in vain."""
        if not in_touch:
            return Judgement(False, "store", "the store cannot be read")
        if pause := self._focus.pause():
            return Judgement(False, "draft", pause)
        # Sketches that have arrived were checked before they were requested.
        return None if conversation.early_draw.has_come else self._economics.obstacle(conversation)

    def _is_cold(self, conversation: Conversation, now: float) -> bool:
        return conversation.is_cold(now, self._economics.price.cache_ttl)

    def _event(
        self, conversation: Conversation, judgement: Judgement, runtime: Runtime[W], *, cold: bool
    ) -> Generator[W, Any, None]:
        """Apply sketches that were deferred, are on their way, or are requested now."""
        if judgement.has_sketches and conversation.deferred:
            yield from self._act(conversation, conversation.deferred, runtime, cold=cold)
            return
        draw = conversation.early_draw.take(runtime)
        for _ in range(_TRIES):
            draw, is_new = (draw, False) if draw else self._join(conversation, runtime)
            decides = False
            try:
                if is_new:
                    # Another session may have decided since the store was read, and released its sketches.
                    place = conversation.place
                    in_touch = yield from self._catch_up(conversation, runtime)
                    if conversation.place != place:
                        judgement, cold = self._judge(conversation, in_touch)
                        if not judgement.due:
                            return
                        continue
                    draw.start(partial(foresee, self._focus, conversation.now()), runtime)
                found = yield from self._awaited(draw, runtime)
                if found is None and not draw.done:
                    self._draws.give_up(draw)
                    break
                if found is None:  # it was cancelled, or its loop has ended
                    continue
                self._pay(conversation, self._draws.bill(draw))
                decides = draw.is_first(runtime)
                if not decides and draw.is_being_decided(runtime):
                    yield runtime.wait(draw.decided, _PATIENCE)
                    in_touch = yield from self._catch_up(conversation, runtime)
                    judgement, cold = self._judge(conversation, in_touch)
                    if not judgement.due:
                        return
                proposal = found if isinstance(found, Proposal) else propose(self._focus, conversation.now(), found)
                if not is_new and self._economics.is_stale(conversation, proposal, cold=cold):
                    self._draws.give_up(draw)  # fresh sketches do better, although they are paid for again
                    continue
                # The draw is held until the decision is stored, so that other calls join it and do not ask again.
                yield from self._act(conversation, proposal, runtime, cold=cold)
                return
            finally:
                if decides:
                    draw.end_decision()
                self._draws.release(draw, is_new=is_new)
                draw = None
        why = f"no sketches came within {self._focus.config.deadline:g} s"
        self._log.add(conversation, Judgement(False, "draft", why))

    def _join(self, conversation: Conversation, runtime: Runtime[W]) -> tuple[Draw, bool]:
        """Return the draw for this conversation, and whether it is new and must be started."""
        scope = (
            self._focus,
            conversation.tenant,
            conversation.reader.wire.name,
            conversation.last_event.key if conversation.last_event else None,  # sketches are for one event
            conversation.decided,
            conversation.restored,
            self._offers_recall,
        )
        return self._draws.join(conversation, scope, runtime)

    def _awaited(self, draw: Draw, runtime: Runtime[W]) -> Generator[W, Any, Proposal | Drafted | None]:
        """Return the proposal of a draw, or only its sketches; None if it was cancelled or did not arrive in time."""
        patience = None if draw.is_driven_by(runtime) else self._focus.config.deadline + _PATIENCE
        yield runtime.wait(draw.outcome, patience)
        found = draw.outcome.result() if draw.done else None
        if isinstance(found, BaseException):
            raise found
        return found

    def _act(
        self, conversation: Conversation, proposal: Proposal, runtime: Runtime[W], *, cold: bool
    ) -> Generator[W, Any, None]:
        """Drop the spans that the sketches leave out, if it pays and can be stored."""
        conversation.drew_ahead, conversation.deferred = False, None
        started = time.perf_counter()
        proposal = up_to_date(proposal, conversation.now(), self._focus)
        result, change = proposal.result(self._focus, started), proposal.change
        if result.failure is not None:
            self._log.add(conversation, Judgement(False, "draft", result.failure), result)
            return
        judgement = self._economics.judge_proposal(conversation, proposal, cold=cold)
        done = change if judgement.due else None
        balance = self._economics.balance_after(conversation, done, cold=cold)
        event = _event_record(conversation, proposal if done else None, self._clock(), balance)
        originals = proposal.originals if done else ()
        commit = partial(self._store.commit, conversation.tenant, conversation.root, event, originals)
        try:
            stored: StoredEvent = yield runtime.call(commit)
        except StoreError as error:
            if judgement.due:
                why = f"the store could not be written: {error}"
                conversation.deferred = proposal
                self._log.add(conversation, replace(judgement, due=False, cause="store", why=why), result)
                return
            stored = event  # it only records that these tokens were judged, which this object remembers
        else:
            if stored == event:
                conversation.version += 1  # if others wrote too, the store's is higher, and it is read again
        if stored == event:
            conversation.add_event(event, proposal.news if done else None)
            conversation.spent = 0.0
        else:
            conversation.add_event(stored)
            change, judgement = conversation.now().change_to(conversation.decided), _FOLLOWED
        if judgement.cause == "money":
            conversation.deferred = proposal
        if not (judgement.due and self._change(conversation, change, judgement, result)):
            self._log.add(conversation, judgement, result)

    def _change(
        self, conversation: Conversation, change: Change, judgement: Judgement, result: Result | None = None
    ) -> bool:
        """Switch to the changed view if it differs; a session's first view records no event for others' decisions."""
        before, is_first = conversation.tokens, conversation.last_call is None
        if change.left_out == conversation.left_out:
            return False
        conversation.apply(change)
        if is_first and judgement is _FOLLOWED and result is None:
            conversation.unmoved = None
        elif change.moves:
            self._log.add(conversation, judgement, result, moved_from=before)
        return change.moves

    def _look_ahead(self, conversation: Conversation, runtime: Runtime[W], in_touch: bool) -> None:
        """Request sketches now if an event may soon be due: they arrive while the agent's own call runs."""
        if not self._economics.looks_ahead or conversation.drew_ahead or conversation.early_draw.in_flight:
            return
        if self._economics.is_due_soon(conversation) and not self._obstacle(conversation, in_touch):
            self.release(conversation)
            conversation.drew_ahead = True
            price = self._economics.sketches(conversation.tokens)
            draw, is_new = self._join(conversation, runtime)
            if is_new:
                draw.start(partial(foresee, self._focus, conversation.now()), runtime)
            conversation.early_draw.hold(draw, self._draws, price)

    def _pay(self, conversation: Conversation, cost: float | None) -> None:
        """Record the cost of sketches; None for an unknown price."""
        if cost != 0:
            conversation.spent += cost or 0.0
            conversation.ledger.drew(cost)


def stored_decisions(store: Store, conversation: Conversation) -> StoredDecisions:
    """Read the decisions of any process on this chain. Asks only about new spans, unless something changed.

    A decision was made for the future of one history. It holds where that history continues, and not in a shorter one
    (a fork, or the same task started again) that may still continue differently, so only the chain's own events count.
    May run on its own thread and be abandoned: it changes nothing.
    """
    tenant = conversation.tenant
    version = store.version(tenant, conversation.root)  # read first: later changes are found next time
    is_same = version == conversation.version
    if is_same and (conversation.knows_all or not version):
        return StoredDecisions(version, is_all=True)
    first = conversation.looked_up if is_same else 0
    keys = conversation.keys[first : conversation.settled]
    if not keys:
        return StoredDecisions(version)
    events = list(store.events(tenant, keys).values())
    dropped = {key for event in events for key in event.dropped}
    named = {conversation.restore_key(f"{key}{end}"): (key, end) for key in sorted(dropped) for end in ("", ".")}
    found = [named[key] for key in store.restored(tenant, list(named))] if named else []
    restored = [key for key, end in found if not end]
    passages = {key: _passages_back(store, conversation, key) for key, end in found if end}
    return StoredDecisions(version, first, events, restored, passages, is_all=first == 0 and len(events) == version)


def _passages_back(store: Store, conversation: Conversation, key: str) -> frozenset[int]:
    """Return the restored passages of a span."""
    named = {conversation.restore_key(f"{key}.{number}"): number for number in conversation.passages_of(key)}
    return frozenset(named[one] for one in store.restored(conversation.tenant, list(named)))


def _shown(proposal: Proposal) -> dict[str, tuple[int, ...]]:
    """Return the passages that are shown of newly shortened spans, by chain key."""
    shown = proposal.news.shown
    return {proposal.snapshot.keys[index - 1]: tuple(sorted(shown[index])) for index in sorted(shown)}


def _event_record(conversation: Conversation, proposal: Proposal | None, now: float, balance: float) -> StoredEvent:
    """Build the record of an event; without a proposal, of sketches that dropped nothing.

    Its key is that of the newest span that can no longer change: the newest of all may still get results.
    """
    return StoredEvent(
        key=conversation.keys[conversation.settled - 1],
        index=conversation.reader.newest,
        tokens_before=conversation.tokens,
        tokens_after=proposal.change.tokens if proposal else conversation.tokens,
        dropped=proposal.keys(proposal.news.spans) if proposal else (),
        shortened=_shown(proposal) if proposal else {},
        time=now,
        balance=balance,
        conversation=conversation.id or conversation.key,
    )
