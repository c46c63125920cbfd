"""Sketches on their way, shared by content: the same history of one tenant is drawn for once.

Conversations with the same past join the same draw, whichever thread or event loop they run in. The first one drives
it, in a task or on a thread. If that is cancelled, or its loop ends, one of the others starts again. A finished draw
is kept for a while, for conversations that come to the same place a little later.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..compressor import Drafted
from .moment import Place
from .proposal import Proposal
from .store import Store
from .stores.fork import ForkSafe
from .waiting import Work, World

if TYPE_CHECKING:
    from .conversation import Conversation

_KEPT = 32
"""Finished draws that are kept although nobody holds them."""


class Draw:
    """Sketches that one or several conversations wait for; `Draws` counts how many hold it.

    `scope` is all that they depend on besides the history: tenant, settings, the last event.
    """

    def __init__(self, scope: Hashable, place: Place, loop: asyncio.AbstractEventLoop | None) -> None:
        self.scope = scope
        self.place = place
        self.outcome: Future[Proposal | Drafted | BaseException | None] = Future()
        """The proposal, or the error it ended with; None if it was cancelled or never started. Of one that is kept
        for others, only the sketches: a proposal holds the whole history."""
        self.decided: Future[None] = Future()
        """Settled when the first who acts on it has stored a decision, or has left."""
        self.users = 0
        self.is_paid = False
        self._loop = loop
        self._decider: World[object] | None = None
        self._work: Work | None = None
        self._process = os.getpid()

    @property
    def done(self) -> bool:
        return self.outcome.done()

    @property
    def failed(self) -> bool:
        """True if it ended without a proposal that anybody could use."""
        if not self.done:
            return False
        found = self.outcome.result()
        return not isinstance(found, Drafted) and (not isinstance(found, Proposal) or found.result.failure is not None)

    @property
    def started(self) -> bool:
        return self._work is not None

    def start(self, foresee: Callable[[], Coroutine[Any, Any, Proposal]], world: World[object]) -> None:
        work = self._work = world.start(self._drive(foresee))
        if isinstance(work, asyncio.Task):
            work.add_done_callback(lambda _: self._settle(None))  # also if it is cancelled before it began

    def is_worth_waiting_for(self, world: World[object]) -> bool:
        """True if it is done, or makes progress while somebody waits for it in that world."""
        if self.done:
            return self.outcome.result() is not None
        return self._process == os.getpid() and _goes_on(self._loop, world)

    def is_driven_by(self, world: World[object]) -> bool:
        """True on the event loop that drives it: it then keeps to its own deadline."""
        return self._loop is not None and self._loop is world.loop

    def is_first(self, world: World[object]) -> bool:
        """Whether this call is the first to act on it, and so the one that decides."""
        if self._decider is None:
            self._decider = world
        return self._decider is world

    def is_being_decided(self, world: World[object]) -> bool:
        """True while the first one acts on it and can get on with it when somebody waits in that world."""
        return self._decider is not None and not self.decided.done() and _goes_on(self._decider.loop, world)

    def end_decision(self) -> None:
        with suppress(InvalidStateError):  # two threads may both have been the first
            self.decided.set_result(None)

    def stop(self) -> None:
        """Cancel it, or have those who joined start again where it was never started."""
        work = self._work
        with suppress(RuntimeError):  # its loop is closed
            if work is None:
                self._settle(None)
            elif isinstance(work, asyncio.Task):
                work.get_loop().call_soon_threadsafe(work.cancel)
            else:
                work.cancel()

    def lighten(self) -> None:
        """Keep only the sketches, unless they are of no use."""
        if isinstance(found := self.outcome.result(), Proposal) and not self.failed:
            self.outcome = Future()
            self.outcome.set_result(found.drafted)

    async def _drive(self, foresee: Callable[[], Coroutine[Any, Any, Proposal]]) -> None:
        try:
            self._settle(
                await foresee()
            )  # made here: one that is cancelled before it begins leaves no coroutine behind
        except Exception as error:  # handed to all who wait
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
        """The one joined last at the end."""

    def join(self, conversation: Conversation, scope: Hashable, world: World[object]) -> tuple[Draw, bool]:
        """Hold the newest draw for the conversation's past, and whether it is a new one, for the caller to start."""
        with self._lock:
            known = [
                draw
                for draw in self._draws
                if draw.scope == scope
                and not draw.failed
                and draw.is_worth_waiting_for(world)
                and conversation.goes_on_from(draw.place)
            ]
            draw = max(known, key=lambda draw: draw.place.messages, default=None)
            is_new = draw is None
            if draw is None:
                draw = Draw(scope, conversation.place, world.loop)
            else:
                self._draws.remove(draw)
            draw.users += 1
            self._draws.append(draw)
            return draw, is_new

    def release(self, draw: Draw, *, is_new: bool = False) -> bool:
        """Let go of a draw; True if sketches were asked for and stopped because nobody else waits for them.

        `is_new` is True for the one who was to start it.
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
        """Have nobody else join a draw that does not come."""
        with self._lock:
            self._draws = [known for known in self._draws if known is not draw]

    def bill(self, draw: Draw, *, stopped: float | None = 0.0) -> float | None:
        """Return the cost of a draw in USD to the first who asks: one that is shared is paid for once.

        `stopped` is the expected cost of one that was stopped half-way: providers bill that too. None stands for an
        unknown price.
        """
        with self._lock:
            if draw.is_paid or not draw.done:
                return 0.0
            draw.is_paid = True
            found = draw.outcome.result()
            drafted = found.drafted if isinstance(found, Proposal) else found
            return drafted.usage.cost if isinstance(drafted, Drafted) else stopped


class Ahead:
    """The draw that a conversation asked for ahead of time, if it holds one."""

    def __init__(self) -> None:
        self._draw: Draw | None = None
        self._draws: Draws | None = None
        self.place: Place | None = None
        """Where the conversation stood when it asked; None without a draw."""
        self._price: float | None = 0.0

    @property
    def in_flight(self) -> bool:
        return self._draw is not None and not self._draw.done

    @property
    def has_come(self) -> bool:
        return self._draw is not None and self._draw.done

    def hold(self, draw: Draw, draws: Draws, price: float | None) -> None:
        """Keep a draw until it is needed; `price` is its expected cost in USD, None where that is not known."""
        self._draw, self._draws, self.place, self._price = draw, draws, draw.place, price

    def take(self, world: World[object]) -> Draw | None:
        """Hand the draw over, unless waiting for it would lead nowhere."""
        if self._draw is not None and not self._draw.is_worth_waiting_for(world):
            self.discard()
        draw, self._draw, self.place = self._draw, None, None
        return draw

    def discard(self) -> float | None:
        """Let go of the draw and return what it cost, None where its price is not known."""
        draw, self._draw, self.place = self._draw, None, None
        if draw is None or self._draws is None:
            return 0.0
        return self._price if self._draws.release(draw) else self._draws.bill(draw, stopped=self._price)


def _goes_on(loop: asyncio.AbstractEventLoop | None, world: World[object]) -> bool:
    """True if work on that loop, or on a thread where there is none, gets on while somebody waits in the world."""
    return loop is None or (loop.is_running() and loop is not world.stopped)


_shared: WeakKeyDictionary[Store, Draws] = WeakKeyDictionary()


def draws_over(store: Store) -> Draws:
    """The draws of all sessions that use this store object."""
    try:
        return _shared.setdefault(store, Draws())
    except TypeError:  # a store of the caller's own that cannot be a key
        return Draws()
