"""What must not be copied half-way: things that are brought to rest before their process forks.

A fork copies a lock as it is, though the thread that holds it stays behind; and an SQLite connection copied into
a child loses its file locks there without noticing, which loses commits later. So just before a fork every
such thing is locked and put to rest, and both processes unlock it afterwards.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class ForkSafe:
    """Does its work under `_lock`, and gives up in `_rest` what a child must not inherit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        with _registry:
            _alive.add(self)

    def _rest(self) -> None:
        """Called under the lock, before the fork."""


_registry = threading.Lock()
_alive: WeakSet[ForkSafe] = WeakSet()
_resting: list[ForkSafe] = []


def _before() -> None:
    _registry.acquire()
    _resting.extend(_alive)
    for each in _resting:
        each._lock.acquire()
        each._rest()


def _after() -> None:
    for each in _resting:
        each._lock.release()
    _resting.clear()
    _registry.release()


if hasattr(os, "register_at_fork"):  # Windows cannot fork
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
