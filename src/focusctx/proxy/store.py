"""A store that never keeps anybody waiting: while it is in trouble, nobody asks it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..errors import StoreError
from ..session.store import Archived, Store, StoredEvent, Totals

_PATIENCE = 1.0
"""Seconds after which a call that has not come back counts as trouble."""
_REST = 5.0
"""Seconds for which a store in trouble is left alone."""

T = TypeVar("T")


class Guarded:
    """Another store, asked only while it answers. All sessions of a proxy share it, so all of them know."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.quick = getattr(store, "quick", False)
        self._under_way: dict[object, float] = {}
        self._rests_until = 0.0
        self.trouble: str | None = None
        """What went wrong last; None while all is well."""

    def version(self, tenant: str, root: str) -> int:
        return self._ask(lambda: self._store.version(tenant, root))

    def dropped(self, tenant: str, keys: Sequence[str]) -> frozenset[str]:
        return self._ask(lambda: self._store.dropped(tenant, keys))

    def events(self, tenant: str, keys: Sequence[str]) -> dict[str, StoredEvent]:
        return self._ask(lambda: self._store.events(tenant, keys))

    def commit(self, tenant: str, root: str, event: StoredEvent, archived: Sequence[Archived]) -> StoredEvent:
        return self._ask(lambda: self._store.commit(tenant, root, event, archived))

    def archived(self, tenant: str, keys: Sequence[str]) -> list[Archived]:
        return self._ask(lambda: self._store.archived(tenant, keys))

    def restore(self, tenant: str, root: str, key: str) -> None:
        self._ask(lambda: self._store.restore(tenant, root, key))

    def add(self, tenant: str, totals: Totals) -> None:
        self._ask(lambda: self._store.add(tenant, totals))

    def totals(self, tenant: str) -> Totals:
        return self._ask(lambda: self._store.totals(tenant))

    def close(self) -> None:
        self._store.close()

    def _ask(self, question: Callable[[], T]) -> T:
        now = time.monotonic()
        if now < self._rests_until:
            raise StoreError(f"{self.trouble}; left alone for {self._rests_until - now:.0f} s more")
        if self._under_way and now - min(self._under_way.copy().values()) > _PATIENCE:
            self._leave_alone("the store does not answer")
            raise StoreError("the store does not answer")
        ticket = object()
        self._under_way[ticket] = now
        try:
            answer = question()
        except StoreError as error:
            self._leave_alone(str(error))
            raise
        finally:
            del self._under_way[ticket]
        self.trouble = None
        return answer

    def _leave_alone(self, why: str) -> None:
        self.trouble, self._rests_until = why, time.monotonic() + _REST
