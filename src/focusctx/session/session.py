"""A session: call `view` at every step with the whole history; decisions last, and the prefix stays in place.

Sketches, which take time, are requested ahead, while the agent's own call runs. Moving the prefix, which costs money,
waits until it pays, as far as the budget allows. Originals are in the store before the first view without them is
returned.

`Session` is the class that users call, `_ViewCall` runs one call of `view`. It is written once for sync and async
programs; see `runtime.py`. Nothing is locked meanwhile: each call has its conversation to itself, and if two calls
decide at once, the store keeps the first decision.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Self, TypeAlias

from ..compressor import Focus
from ..errors import WRONG_USE, ConfigError, StoreError, described
from ..pipeline.draft import Drafted
from ..pipeline.must_stay import pinned_spans
from ..pipeline.rebuild import objection
from ..pipeline.split import Reader
from ..prices import price_of
from ..runtime import LoopRuntime, Runtime, ThreadRuntime, W
from ..types import Message
from ..wire import wire_named
from .conversation import Conversation, Conversations, LastCall, View
from .events import FREE, Economics, Growth, Judgement, Ledger, Log, SessionEvent, pending_totals
from .proposal import Change, Draw, EventEvidence, LeftOut, Proposal, draws_over, propose, up_to_date
from .recall import answer, query_of, recall_tool, span_number
from .store import Archived, Chain, Store, StoredEvent, Totals
from .stores import shared_store, store_from

OnThread: TypeAlias = Callable[[Callable[[], Conversation]], Awaitable[Conversation]]
"""Calls a function on a thread, and returns its result once it has returned."""

_log = logging.getLogger("focusctx")
_PATIENCE = 1.0
"""Seconds to wait, beyond the draft's deadline, for sketches that run on another thread or loop; and for their first
user to store a decision before others make their own."""
_TRIES = 3
_FOLLOWED = Judgement(True, "followed", "decided by another session on the same conversation")
_RESTORED = Judgement(True, "restored", "steps that were left out came back")


class Session:
    """Compresses any number of conversations, from any threads and event loops, with decisions kept in a store.

    Close it when done, or use it as a context manager, sync or async.

    Args:
        focus: Compresses the histories.
        store: Where decisions are kept: `memory`, the URL of a SQLite file or of Redis, or an object with the methods
            of `Store`.
        tenant: The owner of the decisions; no other tenant sees them.
        model: The agent's model, for prices. With None or an unknown model, money is not weighed.
        only_if_it_pays: Put money before the budget: an event that costs more than it saves is never made. By default
            it may wait until the view is a quarter over the budget (half while large results are not answered).
        ahead: The share of the budget at which sketches are requested ahead of time; 1 for never.
        growth: How much a view must grow after an event, as a share of the budget, before the next one.
        recall: True if the agent has the recall tool: the view then lists the steps that were left out.
        frozen: True if the caller never edits a message it has passed in: each is read only once.
        clock: Returns seconds since the epoch.
    """

    def __init__(
        self,
        focus: Focus,
        store: str | Store = "memory",
        *,
        tenant: str = "default",
        model: str | None = None,
        only_if_it_pays: bool = False,
        ahead: float = 0.9,
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
        self.store = shared_store(store) if isinstance(store, str) else store_from(store)
        self.tenant = tenant
        self._owns_store = isinstance(store, str)
        self._is_quick = getattr(self.store, "quick", False)
        self._on_a_thread = getattr(self.store, "on_a_thread", None)
        self._clock = clock
        self._offers_recall = recall
        price = (price_of(model) if model else None) or FREE
        self._economics = Economics(price, focus, ahead=ahead, growth=growth, only_if_it_pays=only_if_it_pays)
        self._draws = draws_over(self.store)
        self._log = Log()
        self._pending = pending_totals(self.store)
        self._ledger = Ledger(price, partial(self._pending.add, self.store, tenant))
        self._conversations = Conversations(focus, self._begin, self._release, frozen=frozen)

    def __repr__(self) -> str:
        return f"<Session: conversations={len(self.conversations)}, store={type(self.store).__name__}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop_sketches()
        await LoopRuntime(self._on_a_thread).call(self._write_and_close)

    def view(self, messages: Sequence[Message], *, format: str | None = None, id: str | None = None) -> View:
        """Return the messages to send instead of the history: the last view and the new ones, unless an event is due.

        `id` is your own name for the conversation, such as a thread's. Conversations of different ids share only
        decisions about equal histories. Without an id, a conversation is recognised by its steps.
        """
        runtime = ThreadRuntime()
        try:
            with self._conversations.using(messages, format, id) as conversation:
                return runtime.drive(_ViewCall(self, conversation, runtime).view())
        except WRONG_USE:
            raise
        except Exception as error:
            return self._unchanged(messages, error)

    async def aview(self, messages: Sequence[Message], *, format: str | None = None, id: str | None = None) -> View:
        """`view` for async programs. Files and servers are called on a thread."""
        try:
            return await self._aview(messages, format=format, id=id)
        except WRONG_USE:
            raise
        except Exception as error:
            return self._unchanged(messages, error)

    @property
    def conversations(self) -> list[Conversation]:
        """The conversations held in memory, most recently used first."""
        return list(self._conversations)

    @property
    def events(self) -> deque[SessionEvent]:
        """Every change of a view, or the reason why there was none, in all conversations."""
        return self._log.events

    @property
    def savings(self) -> Totals:
        """Tokens and USD saved and spent so far, in all conversations."""
        return self._ledger.totals

    @property
    def size(self) -> tuple[int, int]:
        """Tokens of the full history and of its view, in a session of one conversation."""
        conversation = self._only()
        return conversation.size if conversation else (0, 0)

    def recall(self, query: str | int, *, conversation: Conversation | None = None) -> list[Archived]:
        """Return the spans that match an id (`s_7`, `s_7.2`), a number or words; see `Conversation.recall`."""
        found = conversation or self._only()
        return found.recall(query) if found else []

    def recall_tool(self, format: str = "chat_completions") -> dict[str, Any]:
        """Return the definition of the tool whose calls `handle_recall` answers."""
        return recall_tool(format)

    def handle_recall(
        self,
        arguments: str | Mapping[str, Any],
        *,
        restore: bool = False,
        conversation: Conversation | None = None,
    ) -> str:
        """Answer a call of the recall tool; see `Conversation.handle_recall`."""
        found = conversation or self._only()
        return found.handle_recall(arguments, restore=restore) if found else answer(query_of(arguments), (), ())

    def restore(self, span: int | str, *, conversation: Conversation | None = None) -> bool:
        """Bring a span back whole, 7 or `s_7`, or one passage of it, `s_7.2`, for the rest of the conversation.

        False if it is not left out.
        """
        span_number(span)  # an id that names nothing is an error also before the first conversation
        found = conversation or self._only()
        return found is not None and found.restore(span)

    def close(self) -> None:
        """Stop sketches under way, write pending totals, and close a store that was made from a URL."""
        self._stop_sketches()
        self._write_and_close()

    def _stop_sketches(self) -> None:
        for conversation in self._conversations:
            conversation.stop_sketches(self._draws)

    def _write_and_close(self) -> None:
        self._pending.write(self.store)
        if self._owns_store:
            self.store.close()

    # For the proxy, which tells conversations apart itself.

    async def _aview(
        self,
        messages: Sequence[Message],
        *,
        format: str | None = None,
        id: str | None = None,
        after: LastCall | None = None,
        continues: Conversation | None = None,
        name: str | None = None,
        peek: bool = False,
        on_thread: OnThread | None = None,
    ) -> View:
        """`aview` of the conversation with the key `name`, which `continues` an earlier object if there is one.

        `after` is the previous call, if it was made without this session. With `peek`, no event is made and no call is
        counted. `on_thread` reads and counts the messages on a thread, for when very many are new; it must not return
        before the thread is done.
        """
        runtime = LoopRuntime(self._on_a_thread)
        with ExitStack() as stack:
            found = self._conversations.using(messages, format, id, continues=continues, name=name)
            conversation = await _entered(stack, found, on_thread)
            call = _ViewCall(self, conversation, runtime)
            if peek:
                return await runtime.drive(call.peek())
            conversation.last_call = conversation.last_call or after
            return await runtime.drive(call.view())

    def _is_quiet(self, more: Growth, conversation: Conversation | None) -> bool:
        """True if nothing can be due, now or soon, for a history that grew by `more` since it was read."""
        return self._economics.is_quiet(conversation, more)

    def _record_append(self, conversation: Conversation, messages: int) -> bool:
        """Record a call that only appended to the last view, up to `messages` messages in all, and `_is_quiet`.

        False if the session must look at it after all: the conversation is in use, or something may have been decided
        elsewhere.
        """
        with self._conversations.if_free(conversation) as free:
            if not free or not self._knows_all(conversation):
                return False
            now = self._clock()
            if conversation.dropped:  # otherwise nothing is saved
                conversation.ledger.call(conversation, cold=self._economics.is_cold(conversation, now))
            conversation.called(now, messages)
            return True

    def _knows_all(self, conversation: Conversation) -> bool:
        """True if all stored decisions about the conversation are loaded, and none has changed since.

        Before the first decision the store need not be asked: none is made while there is room.
        """
        if not conversation.knows_all or not conversation.version:
            return conversation.knows_all
        try:
            return self._is_quick and self.store.version(self.tenant, conversation.root) == conversation.version
        except StoreError:
            return False

    def _forget(self, conversation: Conversation) -> None:
        """Release a conversation. If it comes back, it continues from the store."""
        self._conversations.forget(conversation)

    def _only(self) -> Conversation | None:
        """Return the one conversation of this session; None before the first."""
        known = self.conversations
        longest = max(known, key=lambda each: len(each.reader.messages), default=None)
        if longest is None or all(longest.is_ahead_of(each) for each in known):
            return known[0] if known else None
        raise ConfigError(
            f"this session holds {len(known)} conversations: pass conversation=view.conversation, "
            "or call the method of view.conversation itself"
        )

    def _begin(self, reader: Reader, chain: Chain, id: str | None) -> Conversation:
        return Conversation(
            reader,
            chain,
            self.focus,
            tenant=self.tenant,
            id=id,
            store=self.store,
            ledger=Ledger(self._economics.price, self._ledger.add),
            noted=self._offers_recall,
        )

    def _release(self, conversation: Conversation) -> None:
        conversation.stop_sketches(self._draws)
        self._log.forget(conversation)
        self._pending.hurry()

    def _unchanged(self, messages: Sequence[Message], error: Exception) -> View:
        """Fail open: return the history unchanged, with the error in the log and among the events.

        The view belongs to an empty conversation: its own could not be read, or was given up.
        """
        why = described(error)
        _log.warning("history passed on unchanged: %s", why, exc_info=error)
        nothing = Reader(wire_named("chat_completions"), self.focus.config, self.focus.count)
        conversation = self._begin(nothing, Chain(), None)
        self._log.add(conversation, Judgement(False, "error", why))
        return View(messages, conversation)


class _ViewCall(Generic[W]):
    """One call of `view`: catch up with the store, judge whether an event is due, apply sketches, and look ahead."""

    def __init__(self, session: Session, conversation: Conversation, runtime: Runtime[W]) -> None:
        self._session = session
        self._focus = session.focus
        self._economics = session._economics
        self._draws = session._draws
        self._log = session._log
        self._conversation = conversation
        self._runtime = runtime
        self._cold = False
        """True if the provider's cache has gone cold."""
        self._store_failed = False
        """True if the store could not be read."""

    def view(self) -> Generator[W, Any, View]:
        """Return the view for the agent's next call, after an event if one is due."""
        session, conversation = self._session, self._conversation
        yield from self._catch_up()
        self._cold = self._economics.is_cold(conversation, session._clock())
        judgement = self._judge()
        if judgement.due:
            yield from self._event(judgement)
        elif judgement.cause != "budget":
            self._log.add(conversation, judgement)
        self._look_ahead()
        conversation.ledger.call(conversation, cold=self._cold)
        conversation.called(session._clock())
        if session._pending.is_due:
            with suppress(StoreError):  # it will be due again
                yield self._runtime.call(partial(session._pending.write, session.store))
        return conversation.view()

    def peek(self) -> Generator[W, Any, View]:
        """Return the current view without making an event or counting a call."""
        yield from self._catch_up()
        return self._conversation.view()

    def _catch_up(self) -> Generator[W, Any, None]:
        """Apply the decisions of other processes and earlier sessions."""
        conversation = self._conversation
        self._store_failed = False
        try:
            if conversation.settled:
                read = conversation.ask_store
                conversation.learn(read() if self._session._is_quick else (yield self._runtime.call(read)))
        except StoreError as error:  # a store that is down must not stop the agent
            _log.warning("the store could not be read, so the last known decisions are used: %s", error)
            self._store_failed = True
        if conversation.decided != conversation.left_out:
            came_back = conversation.decided.shows_more_than(conversation.left_out)
            change = conversation.now().change_to(conversation.decided)
            self._change(change, _RESTORED if came_back else _FOLLOWED)
        if (place := conversation.early_draw.place) and not conversation.goes_on_from(place):
            conversation.stop_sketches(self._draws)
        if conversation.deferred and not conversation.goes_on_from(conversation.deferred.snapshot.place):
            conversation.deferred = None

    def _judge(self) -> Judgement:
        """Judge whether an event is due and possible."""
        judgement = self._economics.judge(self._conversation, cold=self._cold)
        if judgement.due and (obstacle := self._obstacle()):
            return replace(obstacle, verdict=judgement.verdict)
        return judgement

    def _obstacle(self) -> Judgement | None:
        """Return why sketches could not be used, or None, so that the draft is not asked in vain."""
        conversation = self._conversation
        if self._store_failed:
            return Judgement(False, "store", "the store cannot be read")
        if pause := self._focus.pause():
            return Judgement(False, "draft", pause)
        if conversation.early_draw.has_come:  # what follows was checked before they were requested
            return None
        now = conversation.now()
        if illegal := objection(now.view, now.history.format):
            return Judgement(False, "illegal", illegal)
        history = now.remaining()
        if len(pinned_spans(history, self._focus.config.pin)) == len(history.spans):
            return Judgement(False, "pinned", "no step may be dropped")
        return None

    def _event(self, judgement: Judgement) -> Generator[W, Any, None]:
        """Apply sketches that were deferred, are on their way, or are requested now."""
        conversation, draws, runtime = self._conversation, self._draws, self._runtime
        if judgement.has_sketches and conversation.deferred:
            yield from self._apply(conversation.deferred)
            return
        draw = conversation.early_draw.take(draws, runtime)
        for _ in range(_TRIES):
            draw, is_new = (draw, False) if draw else self._join()
            decides = False
            try:
                if is_new:
                    # Another session may have decided since the store was read, and released its sketches.
                    place = conversation.place
                    yield from self._catch_up()
                    if conversation.place != place:
                        if not self._judge().due:
                            return
                        continue
                    draw.start(conversation.now(), runtime)
                found = yield from self._awaited(draw)
                if found is None and not draw.done:
                    draws.give_up(draw)
                    break
                if found is None:  # it was cancelled, or its loop has ended
                    continue
                conversation.pay(draws.bill(draw))
                decides = draw.is_first(runtime)
                if not decides and draw.is_being_decided(runtime):
                    yield runtime.wait(draw.decided, _PATIENCE)
                    yield from self._catch_up()
                    if not self._judge().due:
                        return
                proposal = found if isinstance(found, Proposal) else propose(conversation.now(), found)
                if not is_new and self._economics.is_stale(conversation, proposal, cold=self._cold):
                    draws.give_up(draw)  # fresh sketches do better, although they are paid for again
                    continue
                # The draw is held until the decision is stored, so that other calls join it and do not ask again.
                yield from self._apply(proposal)
                return
            finally:
                if decides:
                    draw.end_decision()
                draws.release(draw, is_new=is_new)
                draw = None
        why = f"no sketches came within {self._focus.config.deadline:g} s"
        self._log.add(conversation, Judgement(False, "draft", why))

    def _join(self) -> tuple[Draw, bool]:
        """Return the draw for this conversation, and whether it is new and must be started."""
        conversation = self._conversation
        scope = (
            self._focus,
            conversation.tenant,
            conversation.reader.wire.name,
            conversation.last_event.key if conversation.last_event else None,  # sketches are for one event
            conversation.decided,
            conversation.restored,
            self._session._offers_recall,
        )
        price = self._economics.sketches(conversation.tokens)
        return self._draws.join(conversation, scope, price, self._runtime)

    def _awaited(self, draw: Draw) -> Generator[W, Any, Proposal | Drafted | None]:
        """Return the proposal of a draw, or only its sketches; None if it was cancelled or did not arrive in time."""
        patience = None if draw.is_driven_by(self._runtime) else self._focus.config.deadline + _PATIENCE
        yield self._runtime.wait(draw.outcome, patience)
        found = draw.outcome.result() if draw.done else None
        if isinstance(found, BaseException):
            raise found
        return found

    def _apply(self, proposal: Proposal) -> Generator[W, Any, None]:
        """Drop the spans that the sketches leave out, if it pays and can be stored."""
        conversation = self._conversation
        conversation.drew_ahead, conversation.deferred = False, None
        started = time.perf_counter()
        proposal = up_to_date(proposal, conversation.now())
        evidence, change = EventEvidence(proposal, time.perf_counter() - started), proposal.change
        if evidence.failure is not None:
            self._log.add(conversation, Judgement(False, "draft", evidence.failure), evidence)
            return
        judgement = self._economics.judge_proposal(conversation, proposal, cold=self._cold)
        event = self._record(proposal if judgement.due else None)
        originals = proposal.originals if judgement.due else ()
        commit = partial(self._session.store.commit, conversation.tenant, conversation.root, event, originals)
        try:
            stored: StoredEvent = yield self._runtime.call(commit)
        except StoreError as error:
            if judgement.due:
                why = f"the store could not be written: {error}"
                conversation.deferred = proposal
                self._log.add(conversation, replace(judgement, due=False, cause="store", why=why), evidence)
                return
            stored = event  # it only records that these tokens were judged, which this object remembers
        else:
            if stored == event:
                conversation.version += 1  # if others wrote too, the store's is higher, and it is read again
        if stored == event:
            conversation.add_event(event)
            conversation.spent = 0.0
        else:
            conversation.add_event(stored)
            change, judgement = conversation.now().change_to(conversation.decided), _FOLLOWED
        if judgement.cause == "money":
            conversation.deferred = proposal
        if not (judgement.due and self._change(change, judgement, evidence)):
            self._log.add(conversation, judgement, evidence)

    def _record(self, proposal: Proposal | None) -> StoredEvent:
        """Build the record of an event; without a proposal, of sketches that dropped nothing.

        Its key is that of the newest span that can no longer change: the newest of all may still get results.
        """
        conversation, keys = self._conversation, self._conversation.keys
        change, news = (proposal.change, proposal.news) if proposal else (None, LeftOut())
        return StoredEvent(
            key=keys[conversation.settled - 1],
            index=conversation.reader.newest,
            tokens_before=conversation.tokens,
            tokens_after=change.tokens if change else conversation.tokens,
            dropped=tuple(keys[index - 1] for index in sorted(news.spans)),
            shortened={keys[index - 1]: tuple(sorted(parts)) for index, parts in sorted(news.shown.items())},
            time=self._session._clock(),
            balance=self._economics.balance_after(conversation, change, cold=self._cold),
            conversation=conversation.id or conversation.key,
        )

    def _change(self, change: Change, judgement: Judgement, evidence: EventEvidence | None = None) -> bool:
        """Switch to the changed view if it differs; a session's first view records no event for others' decisions."""
        conversation = self._conversation
        before, is_first = conversation.tokens, conversation.last_call is None
        if change.left_out == conversation.left_out:
            return False
        conversation.apply(change)
        if is_first and judgement is _FOLLOWED and evidence is None:
            conversation.unmoved = None
        elif change.moves:
            self._log.add(conversation, judgement, evidence, moved_from=before)
        return change.moves

    def _look_ahead(self) -> None:
        """Request sketches now if an event may soon be due: they arrive while the agent's own call runs."""
        conversation, economics = self._conversation, self._economics
        if not economics.looks_ahead or conversation.drew_ahead or conversation.early_draw.in_flight:
            return
        if economics.is_due_soon(conversation) and not self._obstacle():
            conversation.stop_sketches(self._draws)
            conversation.drew_ahead = True
            draw, is_new = self._join()
            if is_new:
                draw.start(conversation.now(), self._runtime)
            conversation.early_draw.hold(draw)


async def _entered(
    stack: ExitStack, found: AbstractContextManager[Conversation], on_thread: OnThread | None
) -> Conversation:
    """Enter the context, on a thread if one is given; the stack exits it, however the call ends."""
    enter = partial(stack.enter_context, found)
    return enter() if on_thread is None else await on_thread(enter)
