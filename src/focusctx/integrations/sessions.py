"""The sessions an integration has open: one for each tenant and model, made when first needed, closed when idle."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..session.events import SessionEvent
from ..session.session import Session
from ..session.store import Totals
from ..session.stores.fork import ForkSafe

_OPEN = 64
"""Sessions open at a time; each may hold files or connections. A tenant that comes back gets a new one."""
_PAST_EVENTS = 1000

Key = tuple[str, str | None]
"""Tenant and model."""


class Sessions(ForkSafe):
    """Hands out sessions. One that is in use stays open until its last user is done."""

    def __init__(self) -> None:
        super().__init__()
        self._open: OrderedDict[Key, _Open] = OrderedDict()
        self._past_events: deque[SessionEvent] = deque(maxlen=_PAST_EVENTS)
        self._past_savings = Totals()

    @contextmanager
    def use(self, key: Key, make: Callable[[], Session]) -> Iterator[Session]:
        with self._lock:
            opened = self._take(key)
        made = make() if opened is None else opened.session  # may take time, so the lock is not held
        with self._lock:
            opened = opened or self._take(key) or self._put(key, made)
            is_spare = not any(one.session is made for one in (opened, *self._open.values()))
        try:
            if is_spare:
                made.close()
            yield opened.session
        finally:
            self._leave(opened)

    def all(self) -> list[Session]:
        with self._lock:
            return list({id(opened.session): opened.session for opened in self._open.values()}.values())

    @property
    def events(self) -> list[SessionEvent]:
        return [*self._past_events, *(event for session in self.all() for event in list(session.events))]

    @property
    def savings(self) -> Totals:
        return sum((session.savings for session in self.all()), self._past_savings)

    def close(self) -> None:
        """Close all sessions, those in use when their last user is done."""
        with self._lock:
            opened = list(self._open.values())
            self._open.clear()
            closing = [session for one in opened for session in self._retire(one)]
        self._end(closing)

    def _take(self, key: Key) -> _Open | None:
        opened = self._open.get(key)
        if opened is not None:
            self._open.move_to_end(key)
            opened.users += 1
        return opened

    def _put(self, key: Key, session: Session) -> _Open:
        opened = self._open[key] = _Open(session, users=1)
        return opened

    def _leave(self, opened: _Open) -> None:
        with self._lock:
            opened.users -= 1
            closing = self._retire(opened) if opened.is_over else []
            while len(self._open) > _OPEN:
                _, oldest = self._open.popitem(last=False)
                closing += self._retire(oldest)
        self._end(closing)

    def _retire(self, opened: _Open) -> list[Session]:
        """Return the session in a list if it can be closed now."""
        opened.is_over = True
        session = opened.session
        is_shared = any(other.session is session for other in self._open.values())  # a factory's choice
        return [] if opened.users or is_shared else [session]

    def _end(self, sessions: Sequence[Session]) -> None:
        for session in sessions:
            session.close()
            events, savings = list(session.events), session.savings  # not under the lock: a session has its own
            with self._lock:
                self._past_events.extend(events)
                self._past_savings += savings


@dataclass(slots=True)
class _Open:
    """A session, and how many calls are using it."""

    session: Session
    users: int
    is_over: bool = False
