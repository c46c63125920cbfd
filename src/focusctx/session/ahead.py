"""Work that takes time: in a task where there is a loop, on a thread where there is none. And at most one draw of
sketches for a conversation, asked for ahead of time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, TypeVar

from ..blocking import Background
from ..errors import StoreError

if TYPE_CHECKING:
    from .moment import Place
    from .proposal import Proposal


class Work(Protocol):
    """Something on its way: sketches, or what the store says."""

    def cancel(self) -> object: ...

    def done(self) -> bool: ...

    def result(self) -> Any: ...


T = TypeVar("T")
W = TypeVar("W", bound=Work)
W_co = TypeVar("W_co", bound=Work, covariant=True)


class World(Protocol[W_co]):
    """Where work runs, and what can be waited for there."""

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> W_co: ...

    def call(self, function: Callable[[], Any]) -> W_co:
        """Work that blocks: whoever waits for it lets others go on, where there are others."""

    def can_wait_for(self, work: Work) -> TypeGuard[W_co]: ...


Thread: TypeAlias = "Background[Any] | Done"
Task: TypeAlias = "asyncio.Future[Any]"


class Done:
    """Work that was done at once."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def cancel(self) -> None: ...

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return self._result


class Threads:
    def start(self, coroutine: Coroutine[Any, Any, Any]) -> Thread:
        return Background(coroutine)

    def call(self, function: Callable[[], Any]) -> Thread:
        return Done(function())

    def can_wait_for(self, work: Work) -> TypeGuard[Thread]:
        return isinstance(work, Background)

    def drive(self, steps: Generator[Thread, Any, T]) -> T:
        """What the steps return, with every work that they yield waited for."""
        with closing(steps):
            try:
                work = next(steps)
                while True:
                    work = steps.send(work.result())
            except StopIteration as end:
                found: T = end.value
                return found


class Tasks:
    """`on_a_thread` is how the store wants to be asked, where it cares."""

    def __init__(self, on_a_thread: Callable[[Callable[[], Any]], Task] | None = None) -> None:
        self._on_a_thread = on_a_thread

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> Task:
        return asyncio.get_running_loop().create_task(coroutine)

    def call(self, function: Callable[[], Any]) -> Task:
        if self._on_a_thread is not None:
            return self._on_a_thread(function)
        return asyncio.get_running_loop().run_in_executor(None, function)

    def can_wait_for(self, work: Work) -> TypeGuard[Task]:
        return isinstance(work, asyncio.Task) and work.get_loop() is asyncio.get_running_loop()

    async def drive(self, steps: Generator[Task, Any, T]) -> T:
        """The same. A store that gives up says so to the steps: here its errors come with the answer, not the call."""
        with closing(steps):
            try:
                work = next(steps)
                while True:
                    try:
                        brought = await work
                    except StoreError as error:
                        work = steps.throw(error)
                    else:
                        work = steps.send(brought)
            except StopIteration as end:
                found: T = end.value
                return found


class Ahead:
    """At most one draw of sketches for a conversation, under way or finished."""

    def __init__(self) -> None:
        self._work: Work | None = None
        self.place: Place | None = None
        """Where the conversation stood when they were asked for; None when there are none."""
        self._price: float | None = 0.0

    @property
    def in_flight(self) -> bool:
        return self._work is not None and not self._work.done()

    @property
    def has_come(self) -> bool:
        return self._work is not None and self._work.done()

    def start(self, work: Work, place: Place, price: float | None) -> None:
        """`price` is what they are expected to cost, in dollars; None where that is not known."""
        self._work, self.place, self._price = work, place, price

    def take(self, world: World[W]) -> Proposal | W | None:
        """What they came to, or the work to wait for; nobody gets them again."""
        work, self._work, self.place = self._work, None, None
        if work is None or work.done():
            return _brought(work)
        if world.can_wait_for(work):
            return work
        _stop(work)  # started from async code and wanted by sync code, or the reverse
        return None

    def discard(self) -> float | None:
        """Stop what is under way; what was paid for it. Providers bill a request that was broken off."""
        work, self._work, self.place = self._work, None, None
        if work is None:
            return 0.0
        if not work.done():
            _stop(work)
            return self._price
        proposal = _brought(work)
        return proposal.drafted.usage.cost if proposal else self._price


def _brought(work: Work | None) -> Proposal | None:
    """What finished work brought; nothing if its loop was closed under it."""
    try:
        return work.result() if work else None
    except asyncio.CancelledError:
        return None


def _stop(work: Work) -> None:
    with suppress(RuntimeError):  # its loop is closed, so it is at rest already
        if isinstance(work, asyncio.Task):
            work.get_loop().call_soon_threadsafe(work.cancel)  # it may be another thread's
        else:
            work.cancel()
