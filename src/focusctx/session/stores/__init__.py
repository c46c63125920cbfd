"""The stores a session can use, by URL. Each is one file, imported when it is asked for."""

from __future__ import annotations

from ...errors import ConfigError
from ..store import Store

_FORMS = """a store is one of
  memory                          this process only, the default
  sqlite:///folder/focus.db       a file, its path relative to the working directory
  sqlite:////folder/focus.db      a file, its path absolute
                                  both take ?max_age=30d&max_size=2GB (none: no limit), and so does memory
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
    place, _, query = url.partition("?")
    if place == "memory":
        from . import memory

        return memory.MemoryStore(memory.DEFAULTS.with_query(query))
    if place.startswith("sqlite:///") and place not in ("sqlite:///", "sqlite:///:memory:"):
        from . import sqlite

        return sqlite.SQLiteStore(place.removeprefix("sqlite:///"), sqlite.DEFAULTS.with_query(query))
    if scheme in ("redis", "rediss") and rest.startswith("//"):
        from .redis import RedisStore

        return RedisStore.from_url(url)
    # Only the scheme is repeated: the rest may hold a password.
    raise ConfigError(f"unknown store URL, it begins with {scheme!r}: {_FORMS}")
