"""The default store: dictionaries, gone with the process. The other stores do what this one does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ..store import Archived, StoredEvent, Totals
from .encoding import pack_all, unpack_all
from .fork import ForkSafe


class MemoryStore(ForkSafe):
    """All that is stored is keyed by (tenant, chain key)."""

    quick = True
    lasting = False

    def __init__(self) -> None:
        super().__init__()
        self._versions: dict[tuple[str, str], int] = {}
        self._events: dict[tuple[str, str], StoredEvent] = {}
        self._originals: dict[tuple[str, str], bytes] = {}
        self._restored: set[tuple[str, str]] = set()
        self._totals: dict[str, Totals] = {}

    def version(self, tenant: str, root: str) -> int:
        with self._lock:
            return self._versions.get((tenant, root), 0)

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
                self._grow(tenant, root)
        return first

    def archived(self, tenant: str, events: Sequence[str]) -> list[Archived]:
        with self._lock:
            found = [(self._originals[tenant, key], key) for key in events if (tenant, key) in self._originals]
        return [span for data, key in found for span in unpack_all(data, key)]

    def restore(self, tenant: str, root: str, key: str) -> None:
        with self._lock:
            if (tenant, key) not in self._restored:
                self._restored.add((tenant, key))
                self._grow(tenant, root)

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
        """Nothing to let go of."""

    def _grow(self, tenant: str, root: str) -> None:
        self._versions[tenant, root] = self._versions.get((tenant, root), 0) + 1
