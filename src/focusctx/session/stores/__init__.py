"""The stores a session can use, by URL. Each is one file, imported when it is asked for."""

from __future__ import annotations

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
