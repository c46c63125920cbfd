"""The conversations that go through the proxy, one object each.

A request belongs to the conversation of the same caller, run and model whose last request it goes on from. Two runs
that begin alike are one as long as their messages are equal, and two from where they differ.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from ..session.conversation import Conversation, canonical, digest
from ..session.events import SessionEvent
from ..session.recall import answer
from ..session.session import Session
from ..session.store import Totals
from .body import read
from .last import Last

_MOST = 1000
"""Conversations held in memory. One that was let go of goes on from the store when it comes back."""
_MOST_BYTES = 128 * 1024 * 1024
"""Memory that their messages take, as `weight` reckons it."""
_STEPS = 500
"""Requests of one conversation whose sizes are kept for the dashboard."""
_LONG = 64 * 1024
"""Bytes of a first message that is not worth remembering: a cache of such would hold gigabytes."""


class Key(NamedTuple):
    """Who calls whom, and the caller's own name for the run."""

    tenant: str
    upstream: str
    format: str
    model: str
    id: str | None = None


class Step(NamedTuple):
    """One request of the agent."""

    time: float
    """Seconds since the epoch."""
    full: int
    """Tokens of the history it sent."""
    sent: int
    """Tokens of what went up instead (in a dry run: would have gone up)."""
    added: float
    """Seconds that compression took of its time."""
    exact: bool = True
    """False where nobody counted: nothing could be due."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Live:
    """A conversation: its last request, its steps, and the session's object for it once that has looked."""

    id: str
    key: Key
    root: str
    session: Session
    last: Last
    held: int = 0
    """Bytes of memory that it is known to take."""
    started: float = field(default_factory=time.time)
    steps: deque[Step] = field(default_factory=lambda: deque(maxlen=_STEPS))
    in_use: bool = False
    """True while a request of it goes through the session: another one that comes works on an object of its own."""
    _last_event: SessionEvent | None = None
    _net: float | None = 0.0

    @property
    def conversation(self) -> Conversation | None:
        return self.last.conversation

    @property
    def events(self) -> list[SessionEvent]:
        return list(self.conversation.events) if self.conversation else []

    @property
    def savings(self) -> Totals:
        return self.conversation.savings if self.conversation else Totals()

    @contextmanager
    def using(self) -> Iterator[None]:
        """While a request of it goes through the session."""
        self.in_use = True
        try:
            yield
        finally:
            self.in_use = False

    def recall(self, query: str) -> str:
        """Answer a call of the recall tool; what it finds is back in this conversation's views."""
        if self.conversation is None:
            return answer(query, (), ())
        return self.conversation.handle_recall(query, restore=True)

    def news(self) -> list[SessionEvent]:
        """The events since this was last asked; a reason that merely goes on is no news."""
        fresh: list[SessionEvent] = []
        events = self.conversation.events if self.conversation else ()
        for event in reversed(events):
            if event is self._last_event or event.steps > 1:
                break
            fresh.append(event)
        self._last_event = events[-1] if events else None
        return fresh[::-1]

    def earned(self) -> float | None:
        """Return the USD saved net since the last call, negative where more was spent; None where it is not known."""
        before, self._net = self._net, self.savings.net
        return None if self._net is None or before is None else self._net - before


class Sessions:
    """All of them, the one used last at the end. Those of one caller and model share a session."""

    def __init__(self, make: Callable[[Key], Session]) -> None:
        self._make = make
        self._live: OrderedDict[str, Live] = OrderedDict()
        self._alike: dict[tuple[Key, str], list[Live]] = {}
        """Conversations of one caller that began with the same words."""
        self._sessions: dict[Key, Session] = {}
        self._users: Counter[Key] = Counter()
        self._held = 0
        self._closing: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Live]:
        return reversed(self._live.values())

    def __len__(self) -> int:
        return len(self._live)

    def with_id(self, id: str) -> Live | None:
        return self._live.get(id)

    def open(self, key: Key, root: str, spelled: Sequence[bytes]) -> Live:
        """The conversation that a request with these messages goes on from, or a new one; `root` is their `root_of`."""
        live = self.find(key, root, spelled) or self._new(key, root)
        self._live.move_to_end(live.id)
        return live

    def make_room(self, live: Live) -> None:
        """Let go of others where memory runs short, after a request of this one."""
        self._held += live.last.size - live.held
        live.held = live.last.size
        while len(self._live) > _MOST or (self._held > _MOST_BYTES and len(self._live) > 1):
            oldest = next((other for other in self._live.values() if other is not live and not other.in_use), None)
            if oldest is None:
                return
            self._let_go(oldest)

    async def close(self) -> None:
        self._live.clear()
        self._alike.clear()
        for session in self._sessions.values():
            await asyncio.to_thread(session.close)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def find(self, key: Key, root: str, spelled: Sequence[bytes]) -> Live | None:
        """The conversation that a request with these messages goes on from, unless another request is using it."""
        alike = self._alike.get((key, root), ())
        idle = [live for live in alike if not live.in_use]
        continued = [live for live in idle if live.last.is_continued_by(spelled)]
        return max(continued, key=lambda live: live.last.length, default=None) or max(
            (live for live in idle if live.last.is_resumed_by(spelled)), key=lambda live: live.last.length, default=None
        )

    def _new(self, key: Key, root: str) -> Live:
        whose = key._replace(id=None)
        session = self._sessions.get(whose)
        if session is None:
            session = self._sessions[whose] = self._make(whose)
        self._users[whose] += 1
        first = name = digest(*(part or "" for part in key), root, size=6)
        number = 1
        while name in self._live:
            number += 1
            name = f"{first}-{number}"
        live = self._live[name] = Live(name, key, root, session, Last(session, key.format))
        self._alike.setdefault((key, root), []).append(live)
        return live

    def _let_go(self, live: Live) -> None:
        del self._live[live.id]
        self._held -= live.held
        alike = self._alike[live.key, live.root]
        alike.remove(live)
        if not alike:
            del self._alike[live.key, live.root]
        if live.conversation is not None:
            live.session._forget(live.conversation)
        whose = live.key._replace(id=None)
        self._users[whose] -= 1
        if not self._users[whose]:
            del self._users[whose], self._sessions[whose]
            task = asyncio.get_running_loop().create_task(asyncio.to_thread(live.session.close))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def root_of(messages: Sequence[bytes]) -> str:
    """How the conversation began: everything up to the user's first words, cache marks aside."""
    beginning = []
    for spelled in messages:
        found, is_user = (_known_beginning if len(spelled) < _LONG else _beginning)(spelled)
        beginning.append(found)
        if is_user:
            break
    return blake2b(b"".join(beginning), digest_size=16).hexdigest()


def _beginning(spelled: bytes) -> tuple[bytes, bool]:
    message = read(spelled)
    is_message = isinstance(message, dict)
    content = canonical(message) if is_message else spelled
    return blake2b(content, digest_size=16).digest(), is_message and message.get("role") == "user"


_known_beginning = lru_cache(maxsize=256)(_beginning)
