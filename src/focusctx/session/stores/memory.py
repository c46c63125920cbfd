"""The default store: dictionaries, gone with the process. The other stores do what this one does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ..store import Archived, StoredEvent, Totals
from .encoding import pack, unpack
from .fork import ForkSafe


class MemoryStore(ForkSafe):
    """All that is stored is keyed by (tenant, chain key)."""

    quick = True

    def __init__(self) -> None:
        super().__init__()
        self._versions: dict[tuple[str, str], int] = {}
        self._events: dict[tuple[str, str], bytes] = {}
        self._archive: dict[tuple[str, str], bytes] = {}
        self._dropped: set[tuple[str, str]] = set()
        self._totals: dict[str, Totals] = {}

    def version(self, tenant: str, root: str) -> int:
        with self._lock:
            return self._versions.get((tenant, root), 0)

    def dropped(self, tenant: str, keys: Sequence[str]) -> frozenset[str]:
        with self._lock:
            return frozenset(key for key in keys if (tenant, key) in self._dropped)

    def events(self, tenant: str, keys: Sequence[str]) -> dict[str, StoredEvent]:
        with self._lock:
            found = {key: self._events[tenant, key] for key in keys if (tenant, key) in self._events}
        return {key: unpack(StoredEvent, data) for key, data in found.items()}

    def recent(self, tenant: str, most: int) -> list[StoredEvent]:
        with self._lock:
            found = (data for (owner, _), data in reversed(self._events.items()) if owner == tenant)
            return [unpack(StoredEvent, data) for data in islice(found, most)]

    def commit(self, tenant: str, root: str, event: StoredEvent, archived: Sequence[Archived]) -> StoredEvent:
        data = pack(event)
        originals = {(tenant, span.key): pack(span) for span in reversed(archived)}
        with self._lock:
            first = self._events.setdefault((tenant, event.key), data)
            if first is data:
                # A span that is still dropped keeps the record of the event that dropped it.
                self._archive.update((key, span) for key, span in originals.items() if key not in self._dropped)
                self._dropped.update(originals)
                self._grow(tenant, root)
        return unpack(StoredEvent, first)

    def archived(self, tenant: str, keys: Sequence[str]) -> list[Archived]:
        with self._lock:
            found = [self._archive[tenant, key] for key in keys if (tenant, key) in self._archive]
        return [unpack(Archived, data) for data in found]

    def restore(self, tenant: str, root: str, key: str) -> None:
        with self._lock:
            if (tenant, key) in self._dropped:
                self._dropped.remove((tenant, key))
                self._grow(tenant, root)

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
