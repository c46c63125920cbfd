"""A session: call `view` at every step with the whole history; decisions last, the prefix does not move.

What takes time, the sketches, is asked for ahead, while the agent's own call runs. What costs money, a moved
prefix, waits for a moment in which it pays, as long as the budget allows. What is dropped is in the store before the
view that lacks it is returned.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from ..compressor import Focus
from ..errors import ConfigError, StoreError
from ..pipeline.recent import RecentHistories
from ..pipeline.split import Reader
from ..prices import price_of
from ..types import Message, Result
from .ahead import Tasks, Threads, W, World
from .conversation import Call, Conversation
from .decisions import event_of, left_out, look_up
from .due import Growth, Judgement, Rule, further
from .events import SessionEvent, remember
from .gate import FREE
from .ledger import Ledger
from .moment import Change
from .money import Money
from .proposal import Proposal, foresee, up_to_date
from .recall import answer, find, query_of, recall_tool, span_number, unavailable
from .store import Archived, Store, StoredEvent, Totals
from .stores import store_from
from .unwritten import unwritten

_log = logging.getLogger("focusctx")
_REMEMBERED_EVENTS = 1000
_REMEMBERED_CONVERSATIONS = 8
_LOOKED_AT = 64
_FOLLOWED = Judgement(True, "followed", "decided by another session on the same conversation")
_RESTORED = Judgement(True, "restored", "steps that were left out came back")

OnThread: TypeAlias = Callable[[Callable[[], object]], Awaitable[object]]
"""Calls a function on a thread, and returns when it has returned."""


class Session:
    """Follows conversations through a store. One object per agent run; any number of them per store.

    tenant           whose decisions these are; nobody else sees them
    model            the agent's model, for prices; None or an unknown one: money is not weighed
    only_if_it_pays  put money before the budget: an event that costs more than it saves is never made. By default it
                     may wait until the view is a quarter over the budget, and is then made
    ahead            the share of the budget at which sketches are asked for ahead of time; 1 for never
    growth           how much a view must grow after an event, as a share of the budget, before the next one
    recall           whether the agent has the recall tool: the view then says what was left out
    frozen           the caller never edits a message it has passed in: none is looked at twice
    clock            seconds since the epoch
    """

    def __init__(
        self,
        focus: Focus,
        store: str | Store = "memory",
        *,
        tenant: str = "default",
        model: str | None = None,
        only_if_it_pays: bool = False,
        ahead: float = 0.8,
        growth: float = 0.25,
        recall: bool = False,
        frozen: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not 0 < ahead <= 1:
            raise ConfigError(f"ahead must be above 0 and at most 1, got {ahead!r}")
        if not growth >= 0:
            raise ConfigError(f"growth must be 0 or more, got {growth!r}")
        self.focus = focus
        self.store = store_from(store)
        self._owns_store = isinstance(store, str)
        self._quick = getattr(self.store, "quick", False)
        self._on_a_thread = getattr(self.store, "on_a_thread", None)
        self.tenant = tenant
        self.events: deque[SessionEvent] = deque(maxlen=_REMEMBERED_EVENTS)
        self._price = (price_of(model) if model else None) or FREE
        self._money = Money(self._price, focus.config, focus.draft_price, focus.count)
        self._rule = Rule(focus.config, self._money, growth=growth, only_if_it_pays=only_if_it_pays)
        self._ahead = ahead
        self._offers_recall = recall
        self._frozen = frozen
        self.clock = clock
        self._recent = RecentHistories(focus.config, focus.count, watched=not frozen)
        self._conversations: list[Conversation] = []
        self._ledger = Ledger(self._price)
        self._unwritten = unwritten(self.store)
        self._lock = threading.Lock()
        self._async_lock = asyncio.Lock()

    def view(self, messages: Sequence[Message], *, format: str | None = None) -> list[Message]:
        """What to send instead of the whole history: the last view and the new messages, unless an event is due."""
        world = Threads()
        with self._lock:
            return world.drive(self._steps(messages, format, world))

    async def aview(
        self,
        messages: Sequence[Message],
        *,
        format: str | None = None,
        after: Call | None = None,
        on_thread: OnThread | None = None,
    ) -> list[Message]:
        """`view` for async programs. What blocks, a file or a server, is asked on a thread.

        `after` is the call before it, where that was made without this session. `on_thread` reads and counts the
        messages on a thread, where there are very many new ones; it must not return before the thread is done.
        """
        world = Tasks(self._on_a_thread)
        async with self._async_lock:
            if on_thread is not None:
                await on_thread(partial(self._read, messages, format))
            return await world.drive(self._steps(messages, format, world, after))

    async def apeek(
        self, messages: Sequence[Message], *, format: str | None = None, on_thread: OnThread | None = None
    ) -> list[Message]:
        """Return what `aview` would send as things stand: no event, no call, nothing is counted."""
        world = Tasks(self._on_a_thread)
        async with self._async_lock:
            if on_thread is not None:
                await on_thread(partial(self._read, messages, format))
            return await world.drive(self._peek(messages, format, world))

    @property
    def size(self) -> tuple[int, int]:
        """Tokens of the history seen last: all of it, and what was sent instead."""
        if not self._conversations:
            return 0, 0
        conversation = self._conversations[0]
        return conversation.reader.tokens, conversation.tokens

    def is_quiet(self, more: Growth) -> bool:
        """Whether nothing can be due, now or soon, for the history seen last with so much more behind it."""
        return self._rule.is_quiet(self._conversations[0] if self._conversations else None, more, ahead=self._ahead)

    def goes_on(self, messages: int) -> bool:
        """A call with the view seen last and more behind it, so many messages in all, for which `is_quiet` holds.
        False where it has to be looked at all the same: something is under way, or may have been decided elsewhere."""
        if not self._conversations or self._async_lock.locked() or not self._knows_all(self._conversations[0]):
            return False
        conversation, now = self._conversations[0], self.clock()
        if conversation.dropped:  # else it costs what it costs without us
            self._add(self._ledger.call(conversation, cold=conversation.is_cold(now, self._price.cache_ttl)))
        conversation.called(now, messages)
        return True

    def _knows_all(self, conversation: Conversation) -> bool:
        """Whether there is no decision that the conversation might come to, and none was changed since.

        As long as there is none at all, the store need not be asked: a first one is made where there is no room.
        """
        if not conversation.knows_all or not conversation.version:
            return conversation.knows_all
        try:
            return self._quick and self.store.version(self.tenant, conversation.root) == conversation.version
        except StoreError:
            return False

    @property
    def savings(self) -> Totals:
        """What this session saved and spent so far."""
        return self._ledger.totals

    def recall(self, query: str | int) -> list[Archived]:
        """The dropped span with that id (`s_7`) or number, verbatim, or those in which the words occur."""
        return self._bring_back(str(query), self._archived())

    def recall_tool(self, format: str = "chat_completions") -> dict[str, Any]:
        """The definition of the tool whose calls `handle_recall` answers."""
        return recall_tool(format)

    def handle_recall(self, arguments: str | Mapping[str, Any], *, restore: bool = False) -> str:
        """The result of a call of the recall tool, to put into the history as its observation.

        Where the call and its result will not be in the history, `restore` has what was found in the views to come.
        """
        query = query_of(arguments)
        try:
            archived = self._archived()
            found = self._bring_back(query, archived)
            for span in found if restore else ():
                self.restore(span.index)
        except StoreError as error:
            _log.warning("nothing recalled: %s", error)
            return unavailable(query)
        return answer(query, found, archived)

    def restore(self, span: int | str) -> bool:
        """Have a dropped span back in its place for the rest of the conversation seen last; False if it was there.

        By its number or its id, 7 or `s_7`.
        """
        number = span_number(span)
        if not self._conversations or number not in self._conversations[0].decided.dropped:
            return False
        conversation = self._conversations[0]
        self.store.restore(self.tenant, conversation.root, conversation.keys[number - 1])
        return True

    def close(self) -> None:
        """Stop what is under way and write what is not written; a store made from a URL is let go of."""
        for conversation in self._conversations:
            self._let_go(conversation)
        self._unwritten.write(self.store)
        if self._owns_store:
            self.store.close()

    def _steps(
        self, messages: Sequence[Message], format: str | None, world: World[W], after: Call | None = None
    ) -> Generator[W, Any, list[Message]]:
        """One call, written once for both worlds: whoever drives it waits for the work it yields."""
        conversation = self._read(messages, format)
        conversation.last_call = conversation.last_call or after
        in_touch = yield from self._catch_up(conversation, world)
        cold = conversation.is_cold(self.clock(), self._price.cache_ttl)
        judgement = self._rule.judge(conversation, cold=cold)
        if judgement.due and (obstacle := self._obstacle(conversation, in_touch)):
            judgement = obstacle._replace(verdict=judgement.verdict)
        if judgement.due:
            proposal = yield from self._proposal(conversation, judgement, world, cold=cold)
            yield from self._event(conversation, proposal, world, cold=cold)
        elif judgement.cause != "budget":
            remember(self.events, conversation, judgement)
        self._look_ahead(conversation, world, in_touch)
        self._add(self._ledger.call(conversation, cold=cold))
        conversation.called(self.clock())
        if self._unwritten.is_due:
            with suppress(StoreError):  # it will be due again
                yield world.call(partial(self._unwritten.write, self.store))
        return conversation.view()

    def _peek(
        self, messages: Sequence[Message], format: str | None, world: World[W]
    ) -> Generator[W, Any, list[Message]]:
        conversation = self._read(messages, format)
        yield from self._catch_up(conversation, world)
        return conversation.view()

    def _read(self, messages: Sequence[Message], format: str | None) -> Conversation:
        reader = self._recent.read(messages, format)
        if self._frozen:
            return self._follow(reader)
        # Agents edit messages in place, mostly new ones. To look at all of them takes time: only before a decision.
        conversation = self._follow(self._recent.current(reader, _LOOKED_AT))
        if conversation.tokens > self.focus.config.budget:
            conversation = self._follow(self._recent.current(conversation.reader))
        return conversation

    def _follow(self, reader: Reader) -> Conversation:
        """The conversation a reader has read, with what is known of it."""
        conversation = next((known for known in self._conversations if known.reader is reader), None)
        others = [known for known in self._conversations if known is not conversation]
        if conversation is None:
            focus = self.focus
            conversation = Conversation(reader, focus.config, focus.count, noted=self._offers_recall)
            others = [known for known in others if not conversation.take_over(known)]
        else:
            conversation.grow()
        self._conversations = [conversation, *others[: _REMEMBERED_CONVERSATIONS - 1]]
        for known in others:
            if known not in self._conversations or conversation.replaces(known):
                self._let_go(known)
        return conversation

    def _catch_up(self, conversation: Conversation, world: World[W]) -> Generator[W, Any, bool]:
        """Follow what another process, or an earlier session, has decided; whether the store could be asked."""
        in_touch = True
        ask = partial(look_up, self.store, self.tenant, conversation)
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
            self._let_go(conversation)
        if conversation.marked and not conversation.goes_on_from(conversation.marked.moment.place):
            conversation.marked = None
        return in_touch

    def _obstacle(self, conversation: Conversation, in_touch: bool) -> Judgement | None:
        """Why sketches would be of no use, if so: nobody is asked for what cannot be used."""
        if not in_touch:
            return Judgement(False, "store", "the store cannot be read")
        if pause := self.focus.pause():
            return Judgement(False, "draft", pause)
        # Where they have come already, this was found out before they were asked for.
        return None if conversation.ahead.has_come else self._rule.obstacle(conversation)

    def _proposal(
        self, conversation: Conversation, judgement: Judgement, world: World[W], *, cold: bool
    ) -> Generator[W, Proposal, Proposal]:
        """Return the proposal to act on: kept from before, requested ahead of time, or requested now."""
        if judgement.has_sketches and conversation.marked:
            return conversation.marked
        ahead = conversation.ahead.take(world)
        if ahead is not None:
            proposal = ahead if isinstance(ahead, Proposal) else (yield from _wait(ahead))
            self._pay(conversation, proposal.drafted.usage.cost)
            if not self._rule.is_stale(conversation, proposal, cold=cold):
                return proposal
        proposal = yield from _wait(world.start(foresee(self.focus, conversation.now())))
        self._pay(conversation, proposal.drafted.usage.cost)
        return proposal

    def _event(
        self, conversation: Conversation, proposal: Proposal, world: World[W], *, cold: bool
    ) -> Generator[W, Any, None]:
        """Act on sketches: drop what they leave out if it pays and can be stored."""
        conversation.drew_ahead, conversation.marked = False, None
        proposal = up_to_date(proposal, conversation.now(), self.focus)
        result, change = proposal.result, proposal.change
        if result.failure is not None:
            remember(self.events, conversation, Judgement(False, "draft", result.failure), result)
            return
        judgement = self._rule.judge_proposal(conversation, proposal, cold=cold)
        done = change if judgement.due else None
        balance = self._money.balance_after(conversation, done, cold=cold)
        event = event_of(conversation, proposal if done else None, self.clock(), balance)
        originals = proposal.originals if done else ()
        commit = partial(self.store.commit, self.tenant, conversation.root, event, originals)
        try:
            stored: StoredEvent = yield world.call(commit)
        except StoreError as error:
            if judgement.due:
                why = f"the store could not be written: {error}"
                conversation.marked = proposal
                remember(self.events, conversation, judgement._replace(due=False, cause="store", why=why), result)
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
            remember(self.events, conversation, judgement, result)

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
            remember(self.events, conversation, judgement, result, moved_from=before)
        return change.moves

    def _look_ahead(self, conversation: Conversation, world: World[W], in_touch: bool) -> None:
        """Ask for sketches now if an event may soon be due: they come while the agent's own call runs."""
        if self._ahead == 1 or conversation.drew_ahead or any(known.ahead.in_flight for known in self._conversations):
            return
        way = further(self.focus.config, self._ahead, conversation.new_tokens)
        soon = self._rule.judge(conversation, cold=False, further=way)
        if soon.due and not self._obstacle(conversation, in_touch):
            self._let_go(conversation)
            conversation.drew_ahead = True
            now = conversation.now()
            price = self._money.sketches(conversation.tokens)
            conversation.ahead.start(world.start(foresee(self.focus, now)), now.place, price)

    def _archived(self) -> list[Archived]:
        """Everything that was left out of the conversation seen last."""
        return left_out(self.store, self.tenant, self._conversations[0]) if self._conversations else []

    def _bring_back(self, query: str, archived: Sequence[Archived]) -> list[Archived]:
        found = find(query, archived)
        self._add(self._ledger.recalled(sum(span.tokens for span in found)))
        return found

    def _let_go(self, conversation: Conversation) -> None:
        """Stop sketches that nobody will use; they are paid for all the same."""
        self._pay(conversation, conversation.ahead.discard())

    def _pay(self, conversation: Conversation, cost: float | None) -> None:
        """Book what sketches cost; None where their price is not known."""
        if cost != 0:
            conversation.spent += cost or 0.0
            self._add(self._ledger.drew(cost))

    def _add(self, added: Totals) -> None:
        self._unwritten.add(self.tenant, added)


def _wait(work: W) -> Generator[W, Proposal, Proposal]:
    """Wait for sketches, and stop them if the caller is stopped."""
    try:
        return (yield work)
    except GeneratorExit:
        work.cancel()
        raise
