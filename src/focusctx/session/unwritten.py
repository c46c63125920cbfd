"""Totals on their way to the store, gathered over all sessions of the process that share it.

They are written together and not at every call: a file or a server takes longer for them than a view takes.
"""

from __future__ import annotations

import logging
import os
import time
from weakref import WeakKeyDictionary

from ..errors import StoreError
from .store import Store, Totals
from .stores.fork import ForkSafe

_log = logging.getLogger("focusctx")
_BETWEEN = 5.0
"""Seconds from one time to the next."""
_NOTHING = Totals()


class Unwritten(ForkSafe):
    """What was saved and spent since that was last written, by tenant."""

    def __init__(self) -> None:
        super().__init__()
        self._totals: dict[str, Totals] = {}
        self._written_at = float("-inf")

    @property
    def is_due(self) -> bool:
        return bool(self._totals) and time.monotonic() - self._written_at > _BETWEEN

    def add(self, tenant: str, added: Totals) -> None:
        if added != _NOTHING:
            with self._lock:
                self._totals[tenant] = self._totals.get(tenant, _NOTHING) + added

    def write(self, store: Store) -> None:
        with self._lock:
            totals, self._totals, self._written_at = self._totals, {}, time.monotonic()
        for tenant, added in totals.items():
            try:
                store.add(tenant, added)
            except StoreError as error:
                _log.warning("totals not stored: %s", error)


_shared: WeakKeyDictionary[Store, Unwritten] = WeakKeyDictionary()
if hasattr(os, "register_at_fork"):  # what the parent has not written, it will
    os.register_at_fork(after_in_child=_shared.clear)


def unwritten(store: Store) -> Unwritten:
    """The one of all sessions that share this object."""
    try:
        return _shared.setdefault(store, Unwritten())
    except TypeError:  # somebody's own store, which cannot be a key
        return Unwritten()
