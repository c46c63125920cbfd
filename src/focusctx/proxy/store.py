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
from contextlib import AbstractContextManager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from ..errors import StoreError
from ..session.store import Archived, Store, StoredEvent, Totals

_PATIENCE = 1.0
"""Seconds in which no call has come back: then the store counts as in trouble."""
_LONGEST = 5.0
"""Seconds that a call may stand behind others."""
_REST = 5.0
"""Seconds between two looks at a store in trouble."""

T = TypeVar("T")
_Call: TypeAlias = tuple[Callable[[], Any], asyncio.Future[Any]]
_Answer: TypeAlias = tuple[Any, BaseException | None]
"""What a function returned, or what it raised."""
_Came: TypeAlias = Callable[[Any, BaseException | None], object]


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
            self._start(self._store.close).result(self._patience)
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
        elif self._together is None:
            self._hand_over([(function, outcome)])
        else:  # with all that others want by the time the loop comes round
            self._waiting.append((function, outcome))
            if len(self._waiting) == 1:
                loop.call_soon(self._hand_all_over)
        return outcome

    def _hand_all_over(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._hand_over(waiting)

    def _hand_over(self, calls: list[_Call]) -> None:
        loop = asyncio.get_running_loop()
        wait = _Wait(self._patience)
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            if not wait.is_over(self._threads.came_back):
                timer = loop.call_later(wait.left, look)
                return
            error = self._give_up()
            for _, outcome in calls:
                if not outcome.done():
                    outcome.set_exception(error)

        def deliver(answers: Sequence[_Answer], _error: BaseException | None) -> None:
            timer.cancel()
            for (_, outcome), answer in zip(calls, answers, strict=True):
                if not outcome.done():  # else nobody waits for it any more
                    _settle(outcome, *answer)

        def came(answers: Sequence[_Answer], error: BaseException | None) -> None:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(deliver, answers, error)

        timer = loop.call_later(wait.left, look)
        self._threads.start(partial(self._answers, [function for function, _ in calls]), came)

    def _answers(self, functions: Sequence[Callable[[], Any]]) -> list[_Answer]:
        """What each returns or raises. Several are asked together, and one by one where that fails."""
        if len(functions) > 1 and self._together is not None:
            with suppress(BaseException), self._together():
                return [(function(), None) for function in functions]
        return [_answer(function) for function in functions]

    def _ask(self, question: Callable[[], T]) -> T:
        if self.trouble is not None:
            raise StoreError(self.trouble)
        try:
            return question() if self._threads.is_own() else self._wait_for(self._start(question))
        except StoreError as error:
            self._leave_alone(str(error))
            raise

    def _start(self, function: Callable[[], T]) -> Future[T]:
        answer: Future[T] = Future()
        self._threads.start(function, partial(_settle, answer))
        return answer

    def _wait_for(self, answer: Future[T]) -> T:
        wait = _Wait(self._patience)
        while True:
            try:
                return answer.result(wait.left)
            except TimeoutError:
                if answer.done():
                    return answer.result()
                if wait.is_over(self._threads.came_back):
                    raise self._give_up() from None

    def _give_up(self) -> StoreError:
        why = "the store does not answer"
        self._leave_alone(why)
        return StoreError(why)

    def _leave_alone(self, why: str) -> None:
        with self._lock:
            is_news, self.trouble, self._is_open = self.trouble is None, why, False
        if is_news:
            threading.Thread(target=self._wait_for_the_end, name="focusctx store", daemon=True).start()

    def _wait_for_the_end(self) -> None:
        """Asks, now and then, what asks for nothing, unless an earlier call still hangs."""
        while not self._closed.wait(self._rest):
            if not self._threads.is_busy:
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
        self._calls: SimpleQueue[tuple[Callable[[], Any], _Came] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = self._idle = 0
        self.came_back = float("-inf")
        """When a call last did."""

    @property
    def is_busy(self) -> bool:
        return self._idle < self._count

    def start(self, function: Callable[[], Any], came: _Came) -> None:
        """`came` is told there what the function returned, or what it raised."""
        with self._lock:
            self._calls.put((function, came))
            if self._idle or self._count == self._most:
                self._idle -= 1
                return
            self._count += 1
        threading.Thread(target=self._work, name="focusctx store", daemon=True).start()

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
            function, came = call
            answer, error = _answer(function)
            with self._lock:
                self._idle += 1
                self.came_back = time.monotonic()
            came(answer, error)
            del call, function, came, answer, error


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
