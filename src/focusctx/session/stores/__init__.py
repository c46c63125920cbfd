"""The stores a session can use, by URL. The one in memory is beside the interface in `../store.py`; each other one is a
file here, imported on demand."""

from __future__ import annotations

import threading
from pathlib import Path
from weakref import WeakValueDictionary

from ...errors import ConfigError
from ..store import MEMORY_LIMITS, MemoryStore, Store

_FORMS = """a store is one of
  memory                          this process only, the default
  sqlite:///folder/focus.db       a file, its path relative to the working directory
  sqlite:////folder/focus.db      a file, its path absolute
                                  both take ?max_age=30d&max_size=2GB (none: no limit), and so does memory
  redis://host:6379/0?ttl=86400   a Redis server, and the seconds that unused data is kept
  rediss://host:6379/0            a Redis server, over TLS
or an object with the methods of focusctx.session.store.Store"""


def store_from(url: str | Store = "memory") -> Store:
    """Return the store for a URL; a store object is returned as it is."""
    if not isinstance(url, str):
        if hasattr(url, "commit"):
            return url
        raise ConfigError(f"{type(url).__name__} is not a store: {_FORMS}")
    scheme, _, rest = url.partition(":")
    place, _, query = url.partition("?")
    if place == "memory":
        return MemoryStore(MEMORY_LIMITS.with_query(query))
    if place.startswith("sqlite:///") and place not in ("sqlite:///", "sqlite:///:memory:"):
        from . import sqlite

        return sqlite.SQLiteStore(place.removeprefix("sqlite:///"), sqlite.DEFAULTS.with_query(query))
    if scheme in ("redis", "rediss") and rest.startswith("//"):
        from .redis import RedisStore

        return RedisStore.from_url(url)
    # Quote only the scheme: the rest may hold a password.
    raise ConfigError(f"unknown store URL, it begins with {scheme!r}: {_FORMS}")


_shared: WeakValueDictionary[str, Store] = WeakValueDictionary()
_sharing = threading.Lock()


def shared_store(url: str) -> Store:
    """Return the store for a URL, one object per process, so that it is opened once.

    Closing it releases files and connections until the next use, so one user's `close` does not break another. A store
    in memory is never shared.
    """
    place, _, query = url.partition("?")
    if place == "memory":
        return store_from(url)
    name = url
    if place.startswith("sqlite:///"):
        name = f"sqlite:{Path(place.removeprefix('sqlite:///')).absolute()}?{query}"
    with _sharing:
        store = _shared.get(name)
        if store is None:
            store = _shared[name] = store_from(url)
        return store
