"""The stores a session can use, by URL. Each is one file, imported when it is asked for."""

from __future__ import annotations

import threading
from pathlib import Path
from weakref import WeakValueDictionary

from ...errors import ConfigError
from ..store import Store

_FORMS = """a store is one of
  memory                          this process only, the default
  sqlite:///folder/focus.db       a file, its path relative to the working directory
  sqlite:////folder/focus.db      a file, its path absolute
  redis://host:6379/0?ttl=86400   a Redis server, and the seconds it keeps what nobody asks for
  rediss://host:6379/0            the same, over TLS
or an object with the methods of focusctx.session.store.Store"""


def store_from(url: str | Store = "memory") -> Store:
    """The store a URL names; a store itself is returned as it is."""
    if not isinstance(url, str):
        if hasattr(url, "commit"):
            return url
        raise ConfigError(f"{type(url).__name__} is no store: {_FORMS}")
    scheme, _, rest = url.partition(":")
    if url == "memory":
        from .memory import MemoryStore

        return MemoryStore()
    if scheme == "sqlite" and rest.startswith("///") and rest not in ("///", "///:memory:"):
        from .sqlite import SQLiteStore

        return SQLiteStore(rest.removeprefix("///"))
    if scheme in ("redis", "rediss") and rest.startswith("//"):
        from .redis import RedisStore

        return RedisStore.from_url(url)
    # Only the scheme is repeated: the rest may hold a password.
    raise ConfigError(f"{scheme!r} names no store, or not in this form: {_FORMS}")


_shared: WeakValueDictionary[str, Store] = WeakValueDictionary()
_sharing = threading.Lock()


def shared_store(url: str) -> Store:
    """The store a URL names, one object for all who ask in this process, so that it is opened once.

    Closing it lets go of files and connections until it is used again: nobody loses it to another one's `close`.
    A store in memory is the caller's own.
    """
    if url == "memory":
        return store_from(url)
    name = f"sqlite:{Path(url.removeprefix('sqlite:///')).absolute()}" if url.startswith("sqlite:///") else url
    with _sharing:
        store = _shared.get(name)
        if store is None:
            store = _shared[name] = store_from(url)
        return store
