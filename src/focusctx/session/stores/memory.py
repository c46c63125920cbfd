"""The default store: dictionaries that end with the process. It defines how the other stores behave."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from ..store import Archived, StoredEvent, Totals, pack_all, unpack_all
from .fork import ForkSafe
from .retention import DAY, IN_USE, Limits

DEFAULTS = Limits(max_age=30 * DAY, max_size=512 * 1024**2)
_OVERHEAD = 1000
"""Approximate bytes of an event besides its originals."""
_REMEMBERED = 10_000
"""Removed conversations whose version is remembered, so that counting does not restart at 1."""

_Name: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class _Conversation:
    version: int = 0
    used: float = 0.0
    size: int = 0
    events: list[str] = field(default_factory=list)
    restored: set[str] = field(default_factory=set)


class MemoryStore(ForkSafe):
    """Stores everything by tenant and root, or by tenant and chain key."""

    quick = True
    lasting = False

    def __init__(self, limits: Limits = DEFAULTS, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.limits = limits
        self._clock = clock
        self._size = 0
        self._conversations: OrderedDict[_Name, _Conversation] = OrderedDict()
        """Least recently used first."""
        self._removed: OrderedDict[_Name, int] = OrderedDict()
        self._events: dict[_Name, StoredEvent] = {}
        self._originals: dict[_Name, bytes] = {}
        self._restored: set[_Name] = set()
        self._totals: dict[str, Totals] = {}

    def version(self, tenant: str, root: str) -> int:
        name = tenant, root
        with self._lock:
            if (conversation := self._conversations.get(name)) is None:
                return self._removed.get(name, 0)
            conversation.used = self._clock()
            self._conversations.move_to_end(name)
            return conversation.version

    def events(self, tenant: str, keys: Sequence[str]) -> dict[str, StoredEvent]:
        with self._lock:
            return {key: self._events[tenant, key] for key in keys if (tenant, key) in self._events}

    def recent(self, tenant: str, most: int) -> list[StoredEvent]:
        with self._lock:
            found = (event for (owner, _), event in reversed(self._events.items()) if owner == tenant)
            return list(islice(found, most))

    def commit(self, tenant: str, root: str, event: StoredEvent, archived: Sequence[Archived]) -> StoredEvent:
        originals = pack_all(archived)
        with self._lock:
            first = self._events.setdefault((tenant, event.key), event)
            if first is event:
                self._originals[tenant, event.key] = originals
                conversation = self._grow(tenant, root)
                conversation.events.append(event.key)
                conversation.size += len(originals) + _OVERHEAD
                self._size += len(originals) + _OVERHEAD
                self._make_room()
        return first

    def archived(self, tenant: str, events: Sequence[str]) -> list[Archived]:
        with self._lock:
            found = [(self._originals[tenant, key], key) for key in events if (tenant, key) in self._originals]
        return [span for data, key in found for span in unpack_all(data, key)]

    def restore(self, tenant: str, root: str, key: str) -> None:
        with self._lock:
            if (tenant, key) not in self._restored:
                self._restored.add((tenant, key))
                self._grow(tenant, root).restored.add(key)

    def restored(self, tenant: str, keys: Sequence[str]) -> frozenset[str]:
        with self._lock:
            return frozenset(key for key in keys if (tenant, key) in self._restored)

    def add(self, tenant: str, totals: Totals) -> None:
        with self._lock:
            self._totals[tenant] = self._totals.get(tenant, Totals()) + totals

    def totals(self, tenant: str) -> Totals:
        with self._lock:
            return self._totals.get(tenant, Totals())

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _grow(self, tenant: str, root: str) -> _Conversation:
        name = tenant, root
        conversation = self._conversations.get(name)
        if conversation is None:
            conversation = self._conversations[name] = _Conversation(self._removed.pop(name, 0))
        conversation.version += 1
        conversation.used = self._clock()
        self._conversations.move_to_end(name)
        return conversation

    def _make_room(self) -> None:
        """Remove conversations over the age or size limit. Each is removed once, so the cost per event is small."""
        now, limits = self._clock(), self.limits
        while self._conversations:
            name, oldest = next(iter(self._conversations.items()))
            idle = now - oldest.used
            is_old = limits.max_age is not None and idle > limits.max_age
            is_too_much = limits.max_size is not None and self._size > limits.max_size and idle > IN_USE
            if not is_old and not is_too_much:
                return
            self._remove(name, oldest)

    def _remove(self, name: _Name, conversation: _Conversation) -> None:
        tenant, _ = name
        del self._conversations[name]
        for key in conversation.events:
            del self._events[tenant, key], self._originals[tenant, key]
        self._restored -= {(tenant, key) for key in conversation.restored}
        self._size -= conversation.size
        self._removed[name] = conversation.version + 1  # sessions that know the old version must look again
        if len(self._removed) > _REMEMBERED:
            self._removed.popitem(last=False)
