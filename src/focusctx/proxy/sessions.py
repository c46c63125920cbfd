"""The conversations that go through the proxy: one session each, found by how it began."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from ..session.events import SessionEvent
from ..session.keys import canonical
from ..session.session import Session
from .body import read
from .last import Last

_MOST = 1000
"""Conversations held in memory. One that was let go of goes on from the store when it comes back."""
_MOST_BYTES = 128 * 1024 * 1024
"""Memory that their messages take, as `weight` reckons it."""
_STEPS = 2000
_LONG = 64 * 1024
"""Bytes of a first message that is not worth remembering: a cache of such would hold gigabytes."""


class Key(NamedTuple):
    """What tells one conversation from another."""

    tenant: str
    upstream: str
    format: str
    model: str
    root: str


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


@dataclass(slots=True, eq=False)
class Live:
    """A conversation, and what is told of it."""

    id: str
    key: Key
    session: Session
    last: Last
    held: int = 0
    """Bytes of memory that it is known to take."""
    started: float = field(default_factory=time.time)
    steps: deque[Step] = field(default_factory=lambda: deque(maxlen=_STEPS))
    _last_event: SessionEvent | None = None
    _net: float | None = 0.0

    def news(self) -> list[SessionEvent]:
        """The events since this was last asked; a reason that merely goes on is no news."""
        fresh: list[SessionEvent] = []
        for event in reversed(self.session.events):
            if event is self._last_event or event.steps > 1:
                break
            fresh.append(event)
        self._last_event = self.session.events[-1] if self.session.events else None
        return fresh[::-1]

    def earned(self) -> float | None:
        """Return the USD saved net since the last call, negative where more was spent; None where it is not known."""
        before, self._net = self._net, self.session.savings.net
        return None if self._net is None or before is None else self._net - before


class Sessions:
    """All of them, the one used last at the end."""

    def __init__(self, make: Callable[[Key], Session]) -> None:
        self._make = make
        self._live: OrderedDict[Key, Live] = OrderedDict()
        self._held = 0
        self._closing: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Live]:
        return reversed(self._live.values())

    def __len__(self) -> int:
        return len(self._live)

    def find(self, key: Key) -> Live | None:
        return self._live.get(key)

    def with_id(self, id: str) -> Live | None:
        return next((live for live in self if live.id == id), None)

    def open(self, key: Key) -> Live:
        live = self._live.get(key)
        if live is None:
            name = blake2b(repr(key).encode(), digest_size=6).hexdigest()
            session = self._make(key)
            live = self._live[key] = Live(name, key, session, Last(session, key.format))
        self._live.move_to_end(key)
        return live

    def make_room(self, live: Live) -> None:
        """Let go of others where memory runs short, after a request of this one."""
        self._held += live.last.size - live.held
        live.held = live.last.size
        while len(self._live) > _MOST or (self._held > _MOST_BYTES and len(self._live) > 1):
            _, oldest = self._live.popitem(last=False)
            self._held -= oldest.held
            task = asyncio.get_running_loop().create_task(asyncio.to_thread(oldest.session.close))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        while self._live:
            _, live = self._live.popitem()
            await asyncio.to_thread(live.session.close)
        await asyncio.gather(*self._closing, return_exceptions=True)


def root_of(messages: list[bytes]) -> str:
    """How the conversation began: everything up to the user's first words, cache marks aside."""
    beginning = []
    for spelled in messages:
        digest, is_user = (_known_beginning if len(spelled) < _LONG else _beginning)(spelled)
        beginning.append(digest)
        if is_user:
            break
    return blake2b(b"".join(beginning), digest_size=16).hexdigest()


def _beginning(spelled: bytes) -> tuple[bytes, bool]:
    message = read(spelled)
    is_message = isinstance(message, dict)
    content = canonical(message) if is_message else spelled
    return blake2b(content, digest_size=16).digest(), is_message and message.get("role") == "user"


_known_beginning = lru_cache(maxsize=256)(_beginning)
