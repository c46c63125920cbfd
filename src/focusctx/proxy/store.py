"""A store that never keeps anybody waiting: while it is in trouble, nobody asks it but a thread that waits for its end.

What may hang, a server or a file that another program has locked, is asked on threads of its own, and waited for as
long as a request can bear. They are daemons: one that hangs holds up neither the requests nor the end of the program.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from ..errors import StoreError
from ..session.store import Archived, Store, StoredEvent, Totals

_PATIENCE = 1.0
"""Seconds in which no call has come back: then the store counts as in trouble."""
_LONGEST = 5.0
"""Seconds that a call may stand behind others."""
_REST = 5.0
"""Seconds between two looks at a store in trouble."""

T = TypeVar("T")


class Guarded:
    """Another store, asked only while it answers. All sessions of a proxy share it, so all of them know."""

    def __init__(self, store: Store, *, patience: float = _PATIENCE, rest: float = _REST) -> None:
        self._store = store
        self.quick = getattr(store, "quick", False)
        self._is_open = False
        """Whether a quick store has answered since it was last in trouble: to open a file may take time."""
        self.trouble: str | None = None
        """What went wrong last; None while all is well."""
        self._patience = patience
        self._rest = rest
        # A quick store writes one thing after the other anyway.
        self._threads = _Threads(most=1 if self.quick else None)
        self._under_way: set[Future[Any]] = set()
        self._came_back = float("-inf")
        """When a call last did."""
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def version(self, tenant: str, root: str) -> int:
        return self._read(lambda: self._store.version(tenant, root))

    def events(self, tenant: str, keys: Sequence[str]) -> dict[str, StoredEvent]:
        return self._read(lambda: self._store.events(tenant, keys))

    def recent(self, tenant: str, most: int) -> list[StoredEvent]:
        return self._read(lambda: self._store.recent(tenant, most))

    def commit(self, tenant: str, root: str, event: StoredEvent, archived: Sequence[Archived]) -> StoredEvent:
        return self._ask(lambda: self._store.commit(tenant, root, event, archived))

    def archived(self, tenant: str, events: Sequence[str]) -> list[Archived]:
        return self._read(lambda: self._store.archived(tenant, events))

    def restore(self, tenant: str, root: str, key: str) -> None:
        self._ask(lambda: self._store.restore(tenant, root, key))

    def restored(self, tenant: str, keys: Sequence[str]) -> frozenset[str]:
        return self._read(lambda: self._store.restored(tenant, keys))

    def add(self, tenant: str, totals: Totals) -> None:
        self._ask(lambda: self._store.add(tenant, totals))

    def totals(self, tenant: str) -> Totals:
        return self._read(lambda: self._store.totals(tenant))

    def close(self) -> None:
        self._closed.set()
        with suppress(TimeoutError, StoreError):
            self._threads.start(self._store.close).result(self._patience)
        self._threads.end()

    def _read(self, question: Callable[[], T]) -> T:
        if not (self.quick and self._is_open):
            answer = self._ask(question)
            self._is_open = True
            return answer
        if self.trouble is not None:
            raise StoreError(self.trouble)
        try:
            return question()
        except StoreError as error:
            self._leave_alone(str(error))
            raise

    def on_a_thread(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """For a function that asks this store: waited for like a single question, but on an event loop."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        if self.trouble is not None:
            outcome.set_exception(StoreError(self.trouble))
            return outcome
        wait = _Wait(self._patience)

        def look() -> None:
            if outcome.done():
                return
            if wait.is_over(self._came_back):
                outcome.set_exception(self._give_up())
            else:
                loop.call_later(wait.left, look)

        def deliver(answer: Future[T]) -> None:
            error = answer.exception()
            if outcome.done():  # nobody waits for it any more
                return
            if error is None:
                outcome.set_result(answer.result())
            else:
                outcome.set_exception(error)

        def came(answer: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(deliver, answer)

        loop.call_later(wait.left, look)
        self._start(function).add_done_callback(came)
        return outcome

    def _ask(self, question: Callable[[], T]) -> T:
        if self.trouble is not None:
            raise StoreError(self.trouble)
        try:
            return question() if self._threads.is_own() else self._wait_for(self._start(question))
        except StoreError as error:
            self._leave_alone(str(error))
            raise

    def _start(self, function: Callable[[], T]) -> Future[T]:
        answer = self._threads.start(function)
        self._under_way.add(answer)
        answer.add_done_callback(self._done)
        return answer

    def _wait_for(self, answer: Future[T]) -> T:
        wait = _Wait(self._patience)
        while True:
            try:
                return answer.result(wait.left)
            except TimeoutError:
                if answer.done():
                    return answer.result()
                if wait.is_over(self._came_back):
                    raise self._give_up() from None

    def _give_up(self) -> StoreError:
        why = "the store does not answer"
        self._leave_alone(why)
        return StoreError(why)

    def _done(self, answer: Future[Any]) -> None:
        self._under_way.discard(answer)
        self._came_back = time.monotonic()

    def _leave_alone(self, why: str) -> None:
        with self._lock:
            is_news, self.trouble, self._is_open = self.trouble is None, why, False
        if is_news:
            threading.Thread(target=self._wait_for_the_end, name="focusctx store", daemon=True).start()

    def _wait_for_the_end(self) -> None:
        """Asks, now and then, what asks for nothing, unless an earlier call still hangs."""
        while not self._closed.wait(self._rest):
            if not self._under_way:
                try:
                    self._store.version("", "")
                except Exception as error:
                    self.trouble = str(error)
                else:
                    self.trouble, self._is_open = None, True
                    return


class _Wait:
    """A call may stand behind others: while those come back, and it does not take too long, all is well."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since = self._asked = time.monotonic()

    @property
    def left(self) -> float:
        return self._since + self._patience - time.monotonic()

    def is_over(self, came_back: float) -> bool:
        """Now that no time is left. `came_back` is when a call last did."""
        if came_back <= self._since or self._since > self._asked + _LONGEST:
            return True
        self._since = came_back
        return False


class _Threads:
    """As many as are busy at once, or at most so many; an idle one takes the next call."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._own = threading.local()
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = self._idle = 0

    def start(self, function: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            self._calls.put((future, function))
            if self._idle or self._count == self._most:
                self._idle -= 1
                return future
            self._count += 1
        threading.Thread(target=self._work, name="focusctx store", daemon=True).start()
        return future

    def is_own(self) -> bool:
        """Whether this is one of them."""
        return hasattr(self._own, "here")

    def end(self) -> None:
        """Of each when it has nothing more to do."""
        for _ in range(self._count):
            self._calls.put(None)

    def _work(self) -> None:
        self._own.here = True
        while call := self._calls.get():
            future, function = call
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
            del call, future, function
            with self._lock:
                self._idle += 1
