"""Draws: requests for sketches, shared by conversations of one tenant with the same history.

Conversations with the same past join the same draw, whichever thread or event loop they run in. The first one drives
it, in a task or on a thread. If that is cancelled, or its loop ends, one of the others starts again. A finished draw
is kept for a while, for conversations that reach the same place a little later.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..pipeline.decide import Drafted
from ..runtime import Runtime, Work
from .proposal import Place, Proposal
from .store import Store
from .stores.fork import ForkSafe

if TYPE_CHECKING:
    from .conversation import Conversation

_KEPT = 32
"""Most finished draws to keep that no conversation holds."""


class Draw:
    """Sketches that one or several conversations wait for; `users` counts them.

    `scope` is everything that they depend on besides the history: tenant, settings, the last event.
    """

    def __init__(self, scope: Hashable, place: Place, loop: asyncio.AbstractEventLoop | None) -> None:
        self.scope = scope
        self.place = place
        self.outcome: Future[Proposal | Drafted | BaseException | None] = Future()
        """The proposal, or the error it ended with; None if it was cancelled or never started. A draw kept for later
        conversations holds only the sketches: a proposal holds the whole history."""
        self.decided: Future[None] = Future()
        """Settled when the first user has stored a decision, or has left."""
        self.users = 0
        self.is_paid = False
        self._loop = loop
        self._decider: Runtime[object] | None = None
        self._work: Work | None = None
        self._process = os.getpid()

    @property
    def done(self) -> bool:
        return self.outcome.done()

    @property
    def failed(self) -> bool:
        """True if it ended without a usable proposal."""
        if not self.done:
            return False
        found = self.outcome.result()
        return not isinstance(found, Drafted) and (not isinstance(found, Proposal) or found.drafted.failure is not None)

    @property
    def started(self) -> bool:
        return self._work is not None

    def start(self, foresee: Callable[[], Coroutine[Any, Any, Proposal]], runtime: Runtime[object]) -> None:
        work = self._work = runtime.start(self._drive(foresee))
        if isinstance(work, asyncio.Task):
            work.add_done_callback(lambda _: self._settle(None))  # also if it is cancelled before it began

    def is_worth_waiting_for(self, runtime: Runtime[object]) -> bool:
        """True if it is done, or makes progress while a call waits for it in that runtime."""
        if self.done:
            return self.outcome.result() is not None
        return self._process == os.getpid() and _goes_on(self._loop, runtime)

    def is_driven_by(self, runtime: Runtime[object]) -> bool:
        """True on the event loop that drives it, where it keeps its own deadline."""
        return self._loop is not None and self._loop is runtime.loop

    def is_first(self, runtime: Runtime[object]) -> bool:
        """True if this call is the first to apply it, and so the one that decides."""
        if self._decider is None:
            self._decider = runtime
        return self._decider is runtime

    def is_being_decided(self, runtime: Runtime[object]) -> bool:
        """True while the first user applies it, and can make progress while a call waits in that runtime."""
        return self._decider is not None and not self.decided.done() and _goes_on(self._decider.loop, runtime)

    def end_decision(self) -> None:
        with suppress(InvalidStateError):  # two threads may both have been the first
            self.decided.set_result(None)

    def stop(self) -> None:
        """Cancel it; if it was never started, its other users start again."""
        work = self._work
        with suppress(RuntimeError):  # its loop is closed
            if work is None:
                self._settle(None)
            elif isinstance(work, asyncio.Task):
                work.get_loop().call_soon_threadsafe(work.cancel)
            else:
                work.cancel()

    def lighten(self) -> None:
        """Keep only the sketches, if they are usable."""
        if isinstance(found := self.outcome.result(), Proposal) and not self.failed:
            self.outcome = Future()
            self.outcome.set_result(found.drafted)

    async def _drive(self, foresee: Callable[[], Coroutine[Any, Any, Proposal]]) -> None:
        try:
            # The coroutine is made here, so that a draw cancelled before it begins leaves none behind.
            self._settle(await foresee())
        except Exception as error:  # raised again in every call that waits
            self._settle(error)
        finally:
            self._settle(None)

    def _settle(self, found: Proposal | BaseException | None) -> None:
        if not self.outcome.done():
            self.outcome.set_result(found)


class Draws(ForkSafe):
    """The draws of all sessions that share a store."""

    def __init__(self) -> None:
        super().__init__()
        self._draws: list[Draw] = []
        """Most recently joined last."""

    def join(self, conversation: Conversation, scope: Hashable, runtime: Runtime[object]) -> tuple[Draw, bool]:
        """Hold the newest draw for the conversation's past; also return whether it is new, for the caller to start."""
        with self._lock:
            known = [
                draw
                for draw in self._draws
                if draw.scope == scope
                and not draw.failed
                and draw.is_worth_waiting_for(runtime)
                and conversation.goes_on_from(draw.place)
            ]
            draw = max(known, key=lambda draw: draw.place.messages, default=None)
            is_new = draw is None
            if draw is None:
                draw = Draw(scope, conversation.place, runtime.loop)
            else:
                self._draws.remove(draw)
            draw.users += 1
            self._draws.append(draw)
            return draw, is_new

    def release(self, draw: Draw, *, is_new: bool = False) -> bool:
        """Release a draw; True if its sketches were requested and then stopped because nobody else waits for them.

        `is_new` is True for the caller that was to start it.
        """
        with self._lock:
            draw.users -= 1
            ends = not draw.done and (not draw.users or (is_new and not draw.started))
            if not draw.users and draw.done and not draw.failed:
                draw.lighten()
            unused = [known for known in self._draws if not known.users]
            useless = {known for known in unused if not known.done or known.failed}
            useless.update(unused[:-_KEPT])
            self._draws = [known for known in self._draws if known not in useless]
        if ends:
            draw.stop()
        return ends and draw.started

    def give_up(self, draw: Draw) -> None:
        """Let no other conversation join this draw."""
        with self._lock:
            self._draws = [known for known in self._draws if known is not draw]

    def bill(self, draw: Draw, *, stopped: float | None = 0.0) -> float | None:
        """Return the cost of a draw in USD, and 0 from the second time on: a shared draw is paid for once.

        `stopped` is the expected cost of a draw that was stopped half-way: providers bill that too. None means that the
        price is unknown.
        """
        with self._lock:
            if draw.is_paid or not draw.done:
                return 0.0
            draw.is_paid = True
            found = draw.outcome.result()
            drafted = found.drafted if isinstance(found, Proposal) else found
            return drafted.usage.cost if isinstance(drafted, Drafted) else stopped


class EarlyDraw:
    """The draw that a conversation requested ahead of time, if it holds one."""

    def __init__(self) -> None:
        self._draw: Draw | None = None
        self._draws: Draws | None = None
        self.place: Place | None = None
        """Position of the conversation at the request; None without a draw."""
        self._price: float | None = 0.0

    @property
    def in_flight(self) -> bool:
        return self._draw is not None and not self._draw.done

    @property
    def has_come(self) -> bool:
        return self._draw is not None and self._draw.done

    def hold(self, draw: Draw, draws: Draws, price: float | None) -> None:
        """Keep a draw until it is needed; `price` is its expected cost in USD, None if unknown."""
        self._draw, self._draws, self.place, self._price = draw, draws, draw.place, price

    def take(self, runtime: Runtime[object]) -> Draw | None:
        """Hand over the draw, unless waiting for it would be useless."""
        if self._draw is not None and not self._draw.is_worth_waiting_for(runtime):
            self.discard()
        draw, self._draw, self.place = self._draw, None, None
        return draw

    def discard(self) -> float | None:
        """Release the draw and return its cost in USD, None if unknown."""
        draw, self._draw, self.place = self._draw, None, None
        if draw is None or self._draws is None:
            return 0.0
        return self._price if self._draws.release(draw) else self._draws.bill(draw, stopped=self._price)


def _goes_on(loop: asyncio.AbstractEventLoop | None, runtime: Runtime[object]) -> bool:
    """True if work on that loop, or on a thread if None, makes progress while a call waits in that runtime."""
    return loop is None or (loop.is_running() and loop is not runtime.stopped)


_shared: WeakKeyDictionary[Store, Draws] = WeakKeyDictionary()


def draws_over(store: Store) -> Draws:
    """Return the draws shared by all sessions that use this store object."""
    try:
        return _shared.setdefault(store, Draws())
    except TypeError:  # a custom store that is not hashable or weakly referenceable
        return Draws()
