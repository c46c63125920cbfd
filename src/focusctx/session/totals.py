"""Pending totals: savings and costs not yet written to the store, from all sessions of the process that share it.

They are written in batches, not at every call: writing to a file or server takes longer than making a view. The rest is
written when a conversation is released, a session is closed or the program ends.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
from weakref import WeakKeyDictionary

from ..errors import StoreError
from .store import Store, Totals
from .stores.fork import ForkSafe

_log = logging.getLogger("focusctx")
_BETWEEN = 5.0
"""Seconds between writes."""
_NOTHING = Totals()


class PendingTotals(ForkSafe):
    """Savings and costs since the last write, by tenant."""

    def __init__(self) -> None:
        super().__init__()
        self._totals: dict[str, Totals] = {}
        self._written_at = float("-inf")

    @property
    def is_due(self) -> bool:
        return bool(self._totals) and time.monotonic() - self._written_at > _BETWEEN

    def hurry(self) -> None:
        """Make the next write due at once."""
        self._written_at = float("-inf")

    def add(self, store: Store, tenant: str, added: Totals) -> None:
        if added != _NOTHING:
            with self._lock:
                self._totals[tenant] = self._totals.get(tenant, _NOTHING) + added
                if getattr(store, "lasting", True):
                    _unwritten[self] = store

    def write(self, store: Store) -> None:
        with self._lock:
            totals, self._totals, self._written_at = self._totals, {}, time.monotonic()
            _unwritten.pop(self, None)
        for tenant, added in totals.items():
            try:
                store.add(tenant, added)
            except StoreError as error:
                _log.warning("savings could not be stored, so totals will be too low: %s", error)


_shared: WeakKeyDictionary[Store, PendingTotals] = WeakKeyDictionary()
_unwritten: dict[PendingTotals, Store] = {}
"""Stores with unwritten totals, kept alive until they are written."""


def pending_totals(store: Store) -> PendingTotals:
    """Return the instance shared by all sessions that use this store object."""
    try:
        return _shared.setdefault(store, PendingTotals())
    except TypeError:  # a custom store that is not hashable or weakly referenceable
        return PendingTotals()


@atexit.register
def _write_all() -> None:
    for totals, store in list(_unwritten.items()):
        try:
            totals.write(store)
        except Exception as error:  # the program must still end
            _log.warning("savings could not be stored, so totals will be too low: %s", error)


def _forget_all() -> None:
    _shared.clear()
    _unwritten.clear()


if hasattr(os, "register_at_fork"):  # the parent writes its own totals
    os.register_at_fork(after_in_child=_forget_all)
