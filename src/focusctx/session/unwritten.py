"""Totals not yet written to the store, collected over all sessions of the process that share it.

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


class Unwritten(ForkSafe):
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
                    _waiting[self] = store

    def write(self, store: Store) -> None:
        with self._lock:
            totals, self._totals, self._written_at = self._totals, {}, time.monotonic()
            _waiting.pop(self, None)
        for tenant, added in totals.items():
            try:
                store.add(tenant, added)
            except StoreError as error:
                _log.warning("totals not stored: %s", error)


_shared: WeakKeyDictionary[Store, Unwritten] = WeakKeyDictionary()
_waiting: dict[Unwritten, Store] = {}
"""Stores with unwritten totals, kept alive until they are written."""


def unwritten(store: Store) -> Unwritten:
    """Return the instance shared by all sessions that use this store object."""
    try:
        return _shared.setdefault(store, Unwritten())
    except TypeError:  # a custom store that is not hashable or weakly referenceable
        return Unwritten()


@atexit.register
def _write_all() -> None:
    for waiting, store in list(_waiting.items()):
        try:
            waiting.write(store)
        except Exception as error:  # the program must still end
            _log.warning("totals not stored: %s", error)


def _forget_all() -> None:
    _shared.clear()
    _waiting.clear()


if hasattr(os, "register_at_fork"):  # the parent writes its own totals
    os.register_at_fork(after_in_child=_forget_all)
