"""The record of a session: its events, its savings call by call, and the totals that are not yet in the store.

Every change of a view is an event, and so is every reason why a view over budget was left unchanged. Totals are written
in batches, not at every call: writing to a file or server takes longer than making a view. The rest is written when a
conversation is released, a session is closed or the program ends.
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
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..errors import StoreError
from ..prices import Price
from ..types import Result
from .economics import Cause, Judgement, Verdict
from .recall import ranges
from .store import Store, Totals
from .stores.fork import ForkSafe

if TYPE_CHECKING:
    from .conversation import Conversation

_log = logging.getLogger("focusctx")
_REMEMBERED = 1000
_BETWEEN = 5.0
"""Seconds between writes of totals."""
_NOTHING = Totals()


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
    result: Result | None = None
    """The evidence, if sketches were read."""
    steps: int = 1
    """Number of steps in a row with this reason."""

    def repeats(self, last: SessionEvent) -> bool:
        """True if again nothing happened for the same reason, and no sketches were read."""
        same = (self.happened, self.cause, self.conversation) == (last.happened, last.cause, last.conversation)
        return same and not self.happened and self.result is None and last.result is None


class Log:
    """The latest events of all conversations of a session, newest last; each conversation also keeps its own."""

    def __init__(self) -> None:
        self.events: deque[SessionEvent] = deque(maxlen=_REMEMBERED)
        self._lock = threading.Lock()

    def add(
        self,
        conversation: Conversation,
        judgement: Judgement,
        result: Result | None = None,
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
            result=result,
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
        if result is not None and result.regrets:
            why += f"; {ranges(result.regrets)} looked up again what had been cut, so it stays whole"
        what = f"{event.tokens_before:,} → {event.tokens_after:,} tokens" if event.happened else "left unchanged"
        _log.info("conversation %s, step %d: %s (%s: %s)", event.conversation, event.span, what, event.cause, why)

    def forget(self, conversation: Conversation) -> None:
        """Keep only the numbers of a released conversation: the evidence holds its whole history."""
        gone = {id(event) for event in conversation.events}
        with self._lock:
            for place, event in enumerate(self.events):
                if id(event) in gone and event.result is not None:
                    self.events[place] = replace(event, result=None)

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
            except StoreError as error:
                _log.warning("savings could not be stored, so totals will be too low: %s", error)


_shared: WeakKeyDictionary[Store, PendingTotals] = WeakKeyDictionary()
_unwritten: dict[PendingTotals, Store] = {}
"""Stores with unwritten totals, kept alive until they are written."""


def pending_totals(store: Store) -> PendingTotals:
    """Return the instance shared by all sessions that use this store object."""
    try:
        return _shared.setdefault(store, PendingTotals())
    except TypeError:  # a custom store that is not hashable or weakly referenceable
        return PendingTotals()


@atexit.register
def _write_all() -> None:
    for totals, store in list(_unwritten.items()):
        try:
            totals.write(store)
        except Exception as error:  # the program must still end
            _log.warning("savings could not be stored, so totals will be too low: %s", error)


def _forget_all() -> None:
    _shared.clear()
    _unwritten.clear()


if hasattr(os, "register_at_fork"):  # the parent writes its own totals
    os.register_at_fork(after_in_child=_forget_all)
