"""Protect requests from a failing store: while it fails, only a background thread calls it, to see if it is back.

A store that may hang (a server, or a file that another program has locked) is called on separate threads, and callers
wait only as long as a request can bear. The threads are daemons: if one hangs, it holds up neither the requests nor
the end of the program.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from ..errors import StoreError
from ..session.store import Archived, Store, StoredEvent, Totals

_TIMEOUT = 1.0
"""Seconds without any call returning after which the store counts as failing."""
_LONGEST = 5.0
"""Seconds that a call may wait behind others."""
_PROBE_INTERVAL = 5.0
"""Seconds between two probes of a failing store."""

T = TypeVar("T")
_Call: TypeAlias = tuple[Callable[[], Any], asyncio.Future[Any]]
_Answer: TypeAlias = tuple[Any, BaseException | None]
"""The result of a function, or the exception it raised."""
_Done: TypeAlias = Callable[[Any, BaseException | None], object]


class GuardedStore:
    """Wraps a store and calls it only while it answers. All sessions of a proxy share it, so all notice a failure."""

    def __init__(self, store: Store, *, timeout: float = _TIMEOUT, probe_interval: float = _PROBE_INTERVAL) -> None:
        self._store = store
        self.quick = getattr(store, "quick", False)
        self._is_open = False
        """True if a quick store has answered since its last failure. Until then, opening its file may take time."""
        self.trouble: str | None = None
        """The last error; None while the store works."""
        self._timeout = timeout
        self._probe_interval = probe_interval
        # A quick store makes one write at a time anyway.
        self._threads = _Threads(most=1 if self.quick else None)
        self._together: Callable[[], AbstractContextManager[None]] | None = getattr(store, "together", None)
        self._waiting: list[_Call] = []
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
            self._start(self._store.close).result(self._timeout)
        self._threads.end()

    def _read(self, query: Callable[[], T]) -> T:
        if not (self.quick and self._is_open):
            answer = self._ask(query)
            self._is_open = True
            return answer
        if self.trouble is not None:
            raise StoreError(self.trouble)
        try:
            return query()
        except StoreError as error:
            self._mark_failing(str(error))
            raise

    def on_a_thread(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run a function that calls this store on a thread, within the time limits of a single call."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        if self.trouble is not None:
            outcome.set_exception(StoreError(self.trouble))
        elif self._together is None:
            self._start_calls([(function, outcome)])
        else:  # together with all calls made before the loop's next round
            self._waiting.append((function, outcome))
            if len(self._waiting) == 1:
                loop.call_soon(self._start_waiting)
        return outcome

    def _start_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._start_calls(waiting)

    def _start_calls(self, calls: list[_Call]) -> None:
        loop = asyncio.get_running_loop()
        wait = _Wait(self._timeout)
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            if not wait.is_over(self._threads.last_returned):
                timer = loop.call_later(wait.left, look)
                return
            error = self._give_up()
            for _, outcome in calls:
                if not outcome.done():
                    outcome.set_exception(error)

        def deliver(answers: Sequence[_Answer], _error: BaseException | None) -> None:
            timer.cancel()
            for (_, outcome), answer in zip(calls, answers, strict=True):
                if not outcome.done():  # else its caller no longer waits
                    _settle(outcome, *answer)

        def done(answers: Sequence[_Answer], error: BaseException | None) -> None:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(deliver, answers, error)

        timer = loop.call_later(wait.left, look)
        self._threads.start(partial(self._answers, [function for function, _ in calls]), done)

    def _answers(self, functions: Sequence[Callable[[], Any]]) -> list[_Answer]:
        """Return the result or exception of each function. Several run together, or one by one if that fails."""
        if len(functions) > 1 and self._together is not None:
            with suppress(BaseException), self._together():
                return [(function(), None) for function in functions]
        return [_answer(function) for function in functions]

    def _ask(self, query: Callable[[], T]) -> T:
        if self.trouble is not None:
            raise StoreError(self.trouble)
        try:
            return query() if self._threads.is_own() else self._wait_for(self._start(query))
        except StoreError as error:
            self._mark_failing(str(error))
            raise

    def _start(self, function: Callable[[], T]) -> Future[T]:
        answer: Future[T] = Future()
        self._threads.start(function, partial(_settle, answer))
        return answer

    def _wait_for(self, answer: Future[T]) -> T:
        wait = _Wait(self._timeout)
        while True:
            try:
                return answer.result(wait.left)
            except TimeoutError:
                if answer.done():
                    return answer.result()
                if wait.is_over(self._threads.last_returned):
                    raise self._give_up() from None

    def _give_up(self) -> StoreError:
        why = "the store does not answer"
        self._mark_failing(why)
        return StoreError(why)

    def _mark_failing(self, why: str) -> None:
        with self._lock:
            is_new, self.trouble, self._is_open = self.trouble is None, why, False
        if is_new:
            threading.Thread(target=self._probe_until_it_answers, name="focusctx store", daemon=True).start()

    def _probe_until_it_answers(self) -> None:
        """Probe periodically with a cheap query until the store answers; skip while an earlier call still hangs."""
        while not self._closed.wait(self._probe_interval):
            if not self._threads.is_busy:
                try:
                    self._store.version("", "")
                except Exception as error:
                    self.trouble = str(error)
                else:
                    self.trouble, self._is_open = None, True
                    return


class _Wait:
    """Time limit of one call. It may wait behind others: as long as these return, it gets more time, up to a limit."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._since = self._asked = time.monotonic()

    @property
    def left(self) -> float:
        return self._since + self._timeout - time.monotonic()

    def is_over(self, last_returned: float) -> bool:
        """Called when no time is left: True if the call gets no more. `last_returned` is the time for any call."""
        if last_returned <= self._since or self._since > self._asked + _LONGEST:
            return True
        self._since = last_returned
        return False


class _Threads:
    """Threads for calls: an idle one takes the next call, else a new one is started, up to `most`."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._own = threading.local()
        self._calls: SimpleQueue[tuple[Callable[[], Any], _Done] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = self._idle = 0
        self.last_returned = float("-inf")
        """Time at which a call last returned."""

    @property
    def is_busy(self) -> bool:
        return self._idle < self._count

    def start(self, function: Callable[[], Any], done: _Done) -> None:
        """Call the function on a thread, then `done` with the result or the exception, on the same thread."""
        with self._lock:
            self._calls.put((function, done))
            if self._idle or self._count == self._most:
                self._idle -= 1
                return
            self._count += 1
        threading.Thread(target=self._work, name="focusctx store", daemon=True).start()

    def is_own(self) -> bool:
        """True if the current thread is one of these."""
        return hasattr(self._own, "here")

    def end(self) -> None:
        """End each thread when it has nothing more to do."""
        for _ in range(self._count):
            self._calls.put(None)

    def _work(self) -> None:
        self._own.here = True
        while call := self._calls.get():
            function, done = call
            answer, error = _answer(function)
            with self._lock:
                self._idle += 1
                self.last_returned = time.monotonic()
            done(answer, error)
            del call, function, done, answer, error


def _answer(function: Callable[[], Any]) -> _Answer:
    try:
        return function(), None
    except BaseException as error:
        return None, error


def _settle(future: Future[T] | asyncio.Future[T], answer: Any, error: BaseException | None) -> None:
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)
