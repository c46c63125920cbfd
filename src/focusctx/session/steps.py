"""One call: catch up with the store, see whether an event is due, act on sketches, and look ahead.

Written once for sync and async programs; see `waiting.py`. Nothing is locked: a call has its conversation to itself,
and of two that decide at once the store keeps the first decision.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any

from ..compressor import Drafted, Focus
from ..errors import StoreError
from ..prices import Price
from ..types import Result
from .conversation import Conversation, View
from .decisions import event_of, look_up
from .due import Judgement, Rule, further
from .events import Log
from .moment import Change
from .money import Money
from .proposal import Proposal, foresee, propose, up_to_date
from .sketches import Draw, draws_over
from .store import Store, StoredEvent
from .unwritten import Unwritten
from .waiting import W, World

_log = logging.getLogger("focusctx")
_PATIENCE = 1.0
"""Seconds beyond the draft's deadline that sketches are waited for which run on another thread or loop; and that their
first user has to store a decision before others make their own."""
_TRIES = 3
_FOLLOWED = Judgement(True, "followed", "decided by another session on the same conversation")
_RESTORED = Judgement(True, "restored", "steps that were left out came back")


class Steps:
    """The steps of a call, for the conversations of one session."""

    def __init__(
        self,
        focus: Focus,
        store: Store,
        *,
        rule: Rule,
        money: Money,
        log: Log,
        unwritten: Unwritten,
        ahead: float,
        noted: bool,
        clock: Callable[[], float],
    ) -> None:
        self._focus = focus
        self._store = store
        self._quick = getattr(store, "quick", False)
        self._price: Price = money.price
        self._money = money
        self._rule = rule
        self._log = log
        self._unwritten = unwritten
        self._draws = draws_over(store)
        self._ahead = ahead
        self._offers_recall = noted
        self._clock = clock

    def view(self, conversation: Conversation, world: World[W]) -> Generator[W, Any, View]:
        """The view for the agent's next call, after an event if one is due."""
        in_touch = yield from self._catch_up(conversation, world)
        judgement, cold = self._judge(conversation, in_touch)
        if judgement.due:
            yield from self._event(conversation, judgement, world, cold=cold)
        elif judgement.cause != "budget":
            self._log.add(conversation, judgement)
        self._look_ahead(conversation, world, in_touch)
        conversation.ledger.call(conversation, cold=cold)
        conversation.called(self._clock())
        if self._unwritten.is_due:
            with suppress(StoreError):  # it will be due again
                yield world.call(partial(self._unwritten.write, self._store))
        return conversation.view()

    def peek(self, conversation: Conversation, world: World[W]) -> Generator[W, Any, View]:
        """The view as things are: no event, no call, nothing is counted."""
        yield from self._catch_up(conversation, world)
        return conversation.view()

    def goes_on(self, conversation: Conversation, messages: int) -> bool:
        """Record a call that only appended to the last view, up to that number of messages.

        False where it has to be looked at all the same: something may have been decided elsewhere.
        """
        if not self._knows_all(conversation):
            return False
        now = self._clock()
        if conversation.dropped:  # else it costs what it costs without us
            conversation.ledger.call(conversation, cold=conversation.is_cold(now, self._price.cache_ttl))
        conversation.called(now, messages)
        return True

    def let_go(self, conversation: Conversation) -> None:
        """Stop sketches that nobody will use; they are paid for all the same."""
        self._pay(conversation, conversation.ahead.discard())

    def _knows_all(self, conversation: Conversation) -> bool:
        """True if there is no decision that the conversation might come to, and none was changed since.

        As long as there is none at all, the store need not be asked: a first one is made where there is no room.
        """
        if not conversation.knows_all or not conversation.version:
            return conversation.knows_all
        try:
            return self._quick and self._store.version(conversation.tenant, conversation.root) == conversation.version
        except StoreError:
            return False

    def _catch_up(self, conversation: Conversation, world: World[W]) -> Generator[W, Any, bool]:
        """Follow what another process, or an earlier session, has decided; False if the store could not be asked."""
        in_touch = True
        ask = partial(look_up, self._store, conversation)
        try:
            if conversation.settled:
                conversation.learn(ask() if self._quick else (yield world.call(ask)))
        except StoreError as error:  # go on with what is known: a store that is down must not stop the agent
            _log.warning("store not read: %s", error)
            in_touch = False
        if conversation.decided != conversation.cut:
            came_back = conversation.dropped - conversation.decided.dropped
            change = conversation.now().change_to(conversation.decided)
            self._change(conversation, change, _RESTORED if came_back else _FOLLOWED)
        if (place := conversation.ahead.place) and not conversation.goes_on_from(place):
            self.let_go(conversation)
        if conversation.marked and not conversation.goes_on_from(conversation.marked.moment.place):
            conversation.marked = None
        return in_touch

    def _judge(self, conversation: Conversation, in_touch: bool) -> tuple[Judgement, bool]:
        """Whether an event is due and possible, and whether the provider's cache has gone cold."""
        cold = conversation.is_cold(self._clock(), self._price.cache_ttl)
        judgement = self._rule.judge(conversation, cold=cold)
        if judgement.due and (obstacle := self._obstacle(conversation, in_touch)):
            judgement = obstacle._replace(verdict=judgement.verdict)
        return judgement, cold

    def _obstacle(self, conversation: Conversation, in_touch: bool) -> Judgement | None:
        """Why sketches would be of no use, if so: nobody is asked for what cannot be used."""
        if not in_touch:
            return Judgement(False, "store", "the store cannot be read")
        if pause := self._focus.pause():
            return Judgement(False, "draft", pause)
        # Where they have come already, this was found out before they were asked for.
        return None if conversation.ahead.has_come else self._rule.obstacle(conversation)

    def _event(
        self, conversation: Conversation, judgement: Judgement, world: World[W], *, cold: bool
    ) -> Generator[W, Any, None]:
        """Act on sketches that are kept, on their way, or asked for now."""
        if judgement.has_sketches and conversation.marked:
            yield from self._act(conversation, conversation.marked, world, cold=cold)
            return
        draw = conversation.ahead.take(world)
        for _ in range(_TRIES):
            draw, is_new = (draw, False) if draw else self._join(conversation, world)
            decides = False
            try:
                if is_new:
                    # Another one may have decided since the store was asked, and let go of its sketches.
                    place = conversation.place
                    in_touch = yield from self._catch_up(conversation, world)
                    if conversation.place != place:
                        judgement, cold = self._judge(conversation, in_touch)
                        if not judgement.due:
                            return
                        continue
                    draw.start(partial(foresee, self._focus, conversation.now()), world)
                found = yield from self._awaited(draw, world)
                if found is None and not draw.done:
                    self._draws.give_up(draw)
                    break
                if found is None:  # it was cancelled, or its loop has ended
                    continue
                self._pay(conversation, self._draws.bill(draw))
                decides = draw.is_first(world)
                if not decides and draw.is_being_decided(world):
                    yield world.wait(draw.decided, _PATIENCE)
                    in_touch = yield from self._catch_up(conversation, world)
                    judgement, cold = self._judge(conversation, in_touch)
                    if not judgement.due:
                        return
                proposal = found if isinstance(found, Proposal) else propose(self._focus, conversation.now(), found)
                if not is_new and self._rule.is_stale(conversation, proposal, cold=cold):
                    self._draws.give_up(draw)  # fresh ones, though paid for once more, do better
                    continue
                # Held until it is stored: whoever comes meanwhile joins, and does not ask again.
                yield from self._act(conversation, proposal, world, cold=cold)
                return
            finally:
                if decides:
                    draw.end_decision()
                self._draws.release(draw, is_new=is_new)
                draw = None
        why = f"no sketches came within {self._focus.config.deadline:g} s"
        self._log.add(conversation, Judgement(False, "draft", why))

    def _join(self, conversation: Conversation, world: World[W]) -> tuple[Draw, bool]:
        """The draw for this conversation, and whether it is a new one, to be started."""
        scope = (
            self._focus,
            conversation.tenant,
            conversation.reader.wire.name,
            conversation.last_event.key if conversation.last_event else None,  # sketches serve one event
            conversation.decided,
            conversation.restored,
            self._offers_recall,
        )
        return self._draws.join(conversation, scope, world)

    def _awaited(self, draw: Draw, world: World[W]) -> Generator[W, Any, Proposal | Drafted | None]:
        """The proposal of a draw, or only its sketches; None if it was cancelled, or did not come in time."""
        patience = None if draw.is_driven_by(world) else self._focus.config.deadline + _PATIENCE
        yield world.wait(draw.outcome, patience)
        found = draw.outcome.result() if draw.done else None
        if isinstance(found, BaseException):
            raise found
        return found

    def _act(
        self, conversation: Conversation, proposal: Proposal, world: World[W], *, cold: bool
    ) -> Generator[W, Any, None]:
        """Drop what the sketches leave out, if it pays and can be stored."""
        conversation.drew_ahead, conversation.marked = False, None
        proposal = up_to_date(proposal, conversation.now(), self._focus)
        result, change = proposal.result, proposal.change
        if result.failure is not None:
            self._log.add(conversation, Judgement(False, "draft", result.failure), result)
            return
        judgement = self._rule.judge_proposal(conversation, proposal, cold=cold)
        done = change if judgement.due else None
        balance = self._money.balance_after(conversation, done, cold=cold)
        event = event_of(conversation, proposal if done else None, self._clock(), balance)
        originals = proposal.originals if done else ()
        commit = partial(self._store.commit, conversation.tenant, conversation.root, event, originals)
        try:
            stored: StoredEvent = yield world.call(commit)
        except StoreError as error:
            if judgement.due:
                why = f"the store could not be written: {error}"
                conversation.marked = proposal
                self._log.add(conversation, judgement._replace(due=False, cause="store", why=why), result)
                return
            stored = event  # only says that these tokens were looked at: this object remembers it by itself
        else:
            if stored == event:
                conversation.version += 1  # if others wrote too, the store's is higher, and it is asked again
        if stored == event:
            conversation.heed(event, proposal.news if done else None)
            conversation.spent = 0.0
        else:
            conversation.heed(stored)
            change, judgement = conversation.now().change_to(conversation.decided), _FOLLOWED
        if judgement.cause == "money":
            conversation.marked = proposal
        if not (judgement.due and self._change(conversation, change, judgement, result)):
            self._log.add(conversation, judgement, result)

    def _change(
        self, conversation: Conversation, change: Change, judgement: Judgement, result: Result | None = None
    ) -> bool:
        """Go on with another view, if it is another. In a session's first view, others' decisions are no event."""
        before, is_first = conversation.tokens, conversation.last_call is None
        if change.cut == conversation.cut:
            return False
        conversation.apply(change)
        if is_first and judgement is _FOLLOWED and result is None:
            conversation.unmoved = None
        elif change.moves:
            self._log.add(conversation, judgement, result, moved_from=before)
        return change.moves

    def _look_ahead(self, conversation: Conversation, world: World[W], in_touch: bool) -> None:
        """Ask for sketches now if an event may soon be due: they come while the agent's own call runs."""
        if self._ahead == 1 or conversation.drew_ahead or conversation.ahead.in_flight:
            return
        way = further(self._focus.config, self._ahead, conversation.new_tokens)
        soon = self._rule.judge(conversation, cold=False, further=way)
        if soon.due and not self._obstacle(conversation, in_touch):
            self.let_go(conversation)
            conversation.drew_ahead = True
            price = self._money.sketches(conversation.tokens)
            draw, is_new = self._join(conversation, world)
            if is_new:
                draw.start(partial(foresee, self._focus, conversation.now()), world)
            conversation.ahead.hold(draw, self._draws, price)

    def _pay(self, conversation: Conversation, cost: float | None) -> None:
        """Book what sketches cost; None where their price is not known."""
        if cost != 0:
            conversation.spent += cost or 0.0
            conversation.ledger.drew(cost)
