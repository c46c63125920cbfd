"""A store on a Redis server (6.2 or newer, or Valkey) that many machines share.

All keys of a tenant contain its hash in braces, so that a cluster keeps them on one node and scripts can change them
together.

Unused data expires after `ttl` seconds. `events` renews events together with their originals, so an event never
outlives an original. All users of a server must give the same `ttl`, and the server must not evict earlier:
`maxmemory-policy noeviction`. The server's `appendfsync` decides how durable a commit is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ...errors import ConfigError, MissingExtraError, StoreError
from ..fork import ForkSafe
from ..store import Archived, StoredEvent, Totals, pack, pack_all, scope, unpack, unpack_all

if TYPE_CHECKING:
    from redis import Redis
    from redis.cluster import RedisCluster

_TTL = 30 * 24 * 3600
_BATCH = 1000
"""Keys per script call: while a script runs, the server does nothing else."""

_GROW = """
local function grow(key, ttl)
  -- A count that expired must not start again at numbers that some process still remembers.
  redis.call('SET', key, redis.call('TIME')[1], 'NX')
  redis.call('INCR', key)
  redis.call('EXPIRE', key, ttl * 2)
end
"""
_COMMIT = """
local event, originals, version, ttl = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local first = redis.call('GET', event)
if first then return first end
redis.call('SET', event, ARGV[2], 'EX', ttl)
redis.call('SET', originals, ARGV[3], 'EX', ttl)
grow(version, ttl)
return ARGV[2]
"""
_RESTORE = """
local mark, version, ttl = KEYS[1], KEYS[2], ARGV[1]
-- It must outlive the event that dropped the span.
if redis.call('SET', mark, 1, 'EX', ttl * 2, 'NX') then grow(version, ttl) end
"""
_RESTORED = """
local found = {}
for i, mark in ipairs(KEYS) do
  if redis.call('EXPIRE', mark, ARGV[1] * 2) == 1 then found[#found + 1] = i end
end
return found
"""
_RENEW = """
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[1]) end
"""


class RedisStore(ForkSafe):
    """A store over a redis-py client, which may be a cluster's; it must return bytes (the default)."""

    def __init__(self, client: Redis | RedisCluster, ttl: int = _TTL) -> None:
        if ttl <= 0:
            raise ConfigError(f"ttl must be positive, not {ttl}")
        super().__init__()
        self._client: Any = client  # redis-py types each answer as a value or an awaitable
        self._ttl = ttl
        self._calls = 0
        self._idle = threading.Condition()
        self._commit = self._client.register_script(_GROW + _COMMIT)
        self._restore = self._client.register_script(_GROW + _RESTORE)
        self._restored = self._client.register_script(_RESTORED)
        self._renew = self._client.register_script(_RENEW)

    @classmethod
    def from_url(cls, url: str) -> RedisStore:
        """Connect to a URL. `ttl` in its query is ours; the rest goes to redis-py, such as `socket_timeout`."""
        try:
            from redis import Redis
            from redis.backoff import ExponentialBackoff
            from redis.retry import Retry
        except ImportError as error:
            raise MissingExtraError("the Redis store", "redis") from error
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        ttl = options.pop("ttl", str(_TTL))
        if not ttl.isdecimal():
            raise ConfigError(f"ttl must be a number of seconds, not {ttl!r}")
        try:
            client = Redis.from_url(
                urlunsplit(parts._replace(query=urlencode(options))),
                socket_connect_timeout=5,
                socket_timeout=10,
                # The agent waits for this, and redis-py's default would retry for many seconds.
                retry=Retry(ExponentialBackoff(cap=0.5, base=0.025), 2),
            )
            client.connection_pool.connection_class(**client.connection_pool.connection_kwargs)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"the Redis URL is wrong: {error}") from error
        return cls(client, int(ttl))

    def version(self, tenant: str, root: str) -> int:
        with self._calling():
            return int(self._client.getex(_key(tenant, "version", root), ex=self._ttl * 2) or 0)

    def events(self, tenant: str, keys: Sequence[str]) -> dict[str, StoredEvent]:
        if not keys:
            return {}
        with self._calling():
            found = self._client.mget([_key(tenant, "event", key) for key in keys])
            events = {key: unpack(data) for key, data in zip(keys, found, strict=True) if data}
            if events:
                self._renew([_key(tenant, kind, key) for key in events for kind in ("event", "originals")], [self._ttl])
        return events

    def recent(self, tenant: str, most: int) -> list[StoredEvent]:
        events: list[StoredEvent] = []
        with self._calling():
            keys = list(set(self._client.scan_iter(_key(tenant, "event", "*"), count=_BATCH)))
            for start in range(0, len(keys), _BATCH):
                found = self._client.mget(keys[start : start + _BATCH])
                events += [unpack(data) for data in found if data]
        return sorted(events, key=lambda event: event.time, reverse=True)[:most]

    def commit(self, tenant: str, root: str, event: StoredEvent, archived: Sequence[Archived]) -> StoredEvent:
        names = (("event", event.key), ("originals", event.key), ("version", root))
        records = (pack(event), pack_all(archived))
        with self._calling():
            return unpack(self._commit([_key(tenant, *name) for name in names], [self._ttl, *records]))

    def archived(self, tenant: str, events: Sequence[str]) -> list[Archived]:
        if not events:
            return []
        with self._calling():
            found = self._client.mget([_key(tenant, "originals", key) for key in events])
        return [span for data, key in zip(found, events, strict=True) if data for span in unpack_all(data, key)]

    def restore(self, tenant: str, root: str, key: str) -> None:
        with self._calling():
            self._restore([_key(tenant, "restored", key), _key(tenant, "version", root)], [self._ttl])

    def restored(self, tenant: str, keys: Sequence[str]) -> frozenset[str]:
        found: set[str] = set()
        with self._calling():
            for start in range(0, len(keys), _BATCH):
                batch = keys[start : start + _BATCH]
                hits = self._restored([_key(tenant, "restored", key) for key in batch], [self._ttl])
                found.update(batch[hit - 1] for hit in hits)
        return frozenset(found)

    def add(self, tenant: str, totals: Totals) -> None:
        key = _key(tenant, "totals")
        with self._calling(), self._client.pipeline(transaction=True) as pipeline:
            for name, value in asdict(totals).items():
                if isinstance(value, int):
                    pipeline.hincrby(key, name, value)
                else:
                    pipeline.hincrbyfloat(key, name, value)
            pipeline.expire(key, self._ttl)
            pipeline.execute()

    def totals(self, tenant: str) -> Totals:
        with self._calling():
            found = self._client.hgetall(_key(tenant, "totals"))
        return Totals(**{name: type(zero)(found.get(name.encode(), zero)) for name, zero in asdict(Totals()).items()})

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        with self._calling():
            self._client.close()
            if disconnect := getattr(self._client, "disconnect_connection_pools", None):
                disconnect()  # `close` of a cluster leaves the connections of its nodes open

    @contextmanager
    def _calling(self) -> Iterator[None]:
        from redis.exceptions import RedisError

        with self._lock, self._idle:
            self._calls += 1
        try:
            yield
        except RedisError as error:
            raise StoreError(f"Redis: {error}") from error
        finally:
            with self._idle:
                self._calls -= 1
                self._idle.notify_all()

    def _rest(self) -> None:
        """Wait for the calls of other threads: redis-py's locks, copied while held, would block the child."""
        with self._idle:
            self._idle.wait_for(lambda: self._calls == 0)


def _key(tenant: str, *names: str) -> bytes:
    return ":".join(("focusctx", f"{{{scope(tenant)}}}", *names)).encode("utf-8", "surrogatepass")
