"""Make objects safe to fork: each is brought to rest before its process forks.

A fork copies a lock as it is, but not the thread that holds it; and an SQLite connection copied into a child silently
loses its file locks there, which loses commits later. So just before a fork every such object is locked and put to
rest, and both processes unlock it afterwards.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class ForkSafe:
    """Base class of objects that work under `_lock` and release in `_rest` what a child must not inherit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        with _registry:
            _alive.add(self)

    def _rest(self) -> None:
        """Release such resources; called under the lock before a fork."""


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
