"""A store in one file that many processes and threads share.

In WAL mode readers never wait for a writer, and a process that dies during a commit leaves nothing of it behind.
Committed data outlives the process, but is not forced to disk at once: a power failure may lose the last commits, each
as a whole.

The store is kept within its limits: whole conversations are removed, least recently used first. This happens within the
commit that made the store grow, but only occasionally and for a bounded number of conversations, so that events stay
cheap. The file does not shrink: SQLite reuses the space of removed events. `vacuum` gives it back.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from ...errors import ConfigError
from ..store import Archived, StoredEvent, Totals, pack, pack_all, scope, unpack, unpack_all
from .retention import DAY, IN_USE, Limits, StoredConversation
from .sqlite_file import Connection

T = TypeVar("T")

DEFAULTS = Limits(max_age=30 * DAY, max_size=4 * 1024**3)

_GROW = (
    "INSERT INTO conversations VALUES (?, ?, 1, ?)"
    " ON CONFLICT (tenant, root) DO UPDATE SET version = conversations.version + 1, used = excluded.used"
)
_TOUCH = "UPDATE conversations SET used = max(used, ?) WHERE tenant = ? AND root = ?"
_TOUCHES = 60.0
"""Seconds between two records of a conversation's use."""
_NOTED = 10_000
"""Most conversations whose last recorded use is remembered."""
_ADD = "INSERT INTO totals VALUES (?, ?, ?) ON CONFLICT (tenant, name) DO UPDATE SET value = value + excluded.value"
_AMONG = "tenant = ? AND key IN (SELECT value FROM json_each(?))"
"""One parameter for any number of keys: SQLite limits how many parameters a statement takes."""
_CONVERSATIONS = (
    "SELECT tenant, root, count(*), sum(length(record) + length(originals)), coalesce(max(used), 0)"
    " FROM events LEFT JOIN conversations USING (tenant, root) {where} GROUP BY tenant, root ORDER BY 5"
)
_OLDEST = (
    "SELECT tenant, root FROM conversations WHERE used < ?"
    " AND EXISTS (SELECT 1 FROM events WHERE events.tenant = conversations.tenant AND events.root = conversations.root)"
    " ORDER BY used LIMIT ?"
)
_REMOVED = 200
"""Most conversations removed at a time by age, or by size."""
_CHECKS = 600.0
"""Seconds between two checks …"""
_GROWTH = 64
"""… unless the store has grown by 1/64 of its size limit."""


class SQLiteStore:
    """A store in an SQLite file, created at the first use; its folder must exist.

    Reading a conversation counts as using it. The use is noted in memory and written with the next write.
    """

    quick = True

    def __init__(self, path: str | Path, limits: Limits = DEFAULTS, clock: Callable[[], float] = time.time) -> None:
        self.path = Path(path).absolute()  # a later chdir must not lead to another file
        if not self.path.parent.is_dir():
            raise ConfigError(f"the folder for the store does not exist: {self.path.parent}")
        if self.path.is_dir():
            raise ConfigError(f"the store must be a file, and this is a folder: {self.path}")
        # Two connections, so that a reading thread does not wait for a writing one.
        self._reader = Connection(self.path)
        self._writer = Connection(self.path)
        self._clock = clock
        self.limits = limits
        self._upkeep = Upkeep(limits)
        self._noted: dict[tuple[str, str], float] = {}
        self._uses: deque[tuple[float, str, str]] = deque()

    def version(self, tenant: str, root: str) -> int:
        owner = scope(tenant)
        found = self._reader.rows("SELECT version FROM conversations WHERE tenant = ? AND root = ?", owner, root)
        if not found:
            return 0
        self._note_use(owner, root)
        return int(found[0][0])

    def events(self, tenant: str, keys: Sequence[str]) -> dict[str, StoredEvent]:
        found = dict(self._reader.rows(f"SELECT key, record FROM events WHERE {_AMONG}", scope(tenant), _listed(keys)))
        return {key: unpack(found[key]) for key in keys if key in found}

    def recent(self, tenant: str, most: int) -> list[StoredEvent]:
        query = "SELECT record FROM events WHERE tenant = ? ORDER BY rowid DESC LIMIT ?"
        return [unpack(data) for (data,) in self._reader.rows(query, scope(tenant), most)]

    def commit(self, tenant: str, root: str, event: StoredEvent, archived: Sequence[Archived]) -> StoredEvent:
        owner = scope(tenant)
        record, originals = pack(event), pack_all(archived)
        row = (owner, event.key, record, originals, root)

        def write(db: sqlite3.Connection) -> StoredEvent:
            if db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", row).rowcount:
                now = self._clock()
                db.execute(_GROW, (owner, root, now))
                self._upkeep.after_growth(db, now, len(record) + len(originals))
                return event
            query = "SELECT record FROM events WHERE tenant = ? AND key = ?"
            (data,) = db.execute(query, (owner, event.key)).fetchone()
            return unpack(data)

        return self._write(write)

    def together(self) -> AbstractContextManager[None]:
        """Write everything this thread commits within the context in one transaction, all or nothing."""
        return self._writer.together()

    def archived(self, tenant: str, events: Sequence[str]) -> list[Archived]:
        query = f"SELECT key, originals FROM events WHERE {_AMONG}"
        found = dict(self._reader.rows(query, scope(tenant), _listed(events)))
        return [span for key in events if key in found for span in unpack_all(found[key], key)]

    def restore(self, tenant: str, root: str, key: str) -> None:
        owner = scope(tenant)

        def write(db: sqlite3.Connection) -> None:
            if db.execute("INSERT INTO restored VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (owner, key, root)).rowcount:
                db.execute(_GROW, (owner, root, self._clock()))

        self._write(write)

    def restored(self, tenant: str, keys: Sequence[str]) -> frozenset[str]:
        found = self._reader.rows(f"SELECT key FROM restored WHERE {_AMONG}", scope(tenant), _listed(keys))
        return frozenset(key for (key,) in found)

    def add(self, tenant: str, totals: Totals) -> None:
        owner = scope(tenant)
        rows = [(owner, name, value) for name, value in asdict(totals).items()]

        def write(db: sqlite3.Connection) -> None:  # returns no cursor: one in a traceback would keep the file open
            db.executemany(_ADD, rows)

        self._write(write)

    def totals(self, tenant: str) -> Totals:
        found = dict(self._reader.rows("SELECT name, value FROM totals WHERE tenant = ?", scope(tenant)))
        return Totals(**{name: found.get(name, zero) for name, zero in asdict(Totals()).items()})

    def conversations(self, tenant: str | None = None) -> list[StoredConversation]:
        """List the stored conversations of one tenant or of all, least recently used first."""
        where, values = _of(tenant)
        return [StoredConversation(*row) for row in self._reader.rows(_CONVERSATIONS.format(where=where), *values)]

    def events_by_conversation(self, tenant: str | None = None) -> Iterator[tuple[str, str, StoredEvent]]:
        """Yield all events of one tenant or of all, oldest first, each with its tenant and conversation."""
        where, values = _of(tenant)
        rows = self._reader.rows(f"SELECT tenant, root, record FROM events {where} ORDER BY rowid", *values)
        return ((owner, root, unpack(record)) for owner, root, record in rows)

    def all_totals(self, tenant: str | None = None) -> dict[str, Totals]:
        """Return the totals of one tenant or of all, by the tenant's hash."""
        where, values = _of(tenant)
        zeros = asdict(Totals())
        found: dict[str, dict[str, Any]] = {}
        for owner, name, value in self._reader.rows(f"SELECT tenant, name, value FROM totals {where}", *values):
            if name in zeros:  # another version may store more
                found.setdefault(owner, {**zeros})[name] = value
        return {owner: Totals(**sums) for owner, sums in found.items()}

    def purge(self, *, tenant: str | None = None, before: float | None = None) -> list[StoredConversation]:
        """Remove the conversations last used before that time, or all, and return them."""
        going = [each for each in self.conversations(tenant) if before is None or each.used < before]
        self._write(lambda db: _remove(db, [(each.tenant, each.root) for each in going]))
        return going

    @property
    def file_size(self) -> int:
        """Bytes on disk, including the write-ahead log."""
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def vacuum(self) -> None:
        """Return the space of removed data to the disk. Other users of the file have to wait."""
        self._writer.vacuum()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._reader.close()
        self._writer.close()

    def _note_use(self, owner: str, root: str) -> None:
        now = self._clock()
        if now - self._noted.get((owner, root), 0.0) >= _TOUCHES:
            if len(self._noted) >= _NOTED:
                self._noted.clear()
            self._noted[owner, root] = now
            self._uses.append((now, owner, root))

    def _write(self, write: Callable[[sqlite3.Connection], T]) -> T:
        uses = [self._uses.popleft() for _ in range(len(self._uses))]

        def whole(db: sqlite3.Connection) -> T:
            if uses:
                db.executemany(_TOUCH, uses)
            return write(db)

        return self._writer.transaction(whole)


class Upkeep:
    """Enforces the limits for one store object; processes that share a file each do their part."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._looked = -float("inf")
        self._grown = 0

    def after_growth(self, db: sqlite3.Connection, now: float, size: int) -> None:
        """Remove what exceeds the limits, if a check is due; `size` bytes were just added."""
        limits = self._limits
        self._grown += size
        has_grown = limits.max_size is not None and self._grown * _GROWTH >= limits.max_size
        if not has_grown and now - self._looked < _CHECKS:
            return
        self._looked, self._grown = now, 0
        if limits.max_age is not None:
            _remove(db, db.execute(_OLDEST, (now - limits.max_age, _REMOVED)).fetchall())
            # The version of a removed conversation stays longer, for sessions that remember the old one.
            db.execute("DELETE FROM conversations WHERE used < ?", (now - 2 * limits.max_age,))
        if limits.max_size is None:
            return
        if _size_of(db) <= limits.max_size:
            return
        oldest = db.execute(_OLDEST, (now - IN_USE, _REMOVED)).fetchall()
        for conversation in oldest:
            _remove(db, [conversation])
            if _size_of(db) <= limits.max_size:
                return
        if len(oldest) == _REMOVED:
            self._looked = -float("inf")  # more is left to remove with the next event


def _remove(db: sqlite3.Connection, conversations: Sequence[tuple[str, str]]) -> None:
    """Remove the events of these conversations, by tenant and root."""
    for table in ("events", "restored"):
        db.executemany(f"DELETE FROM {table} WHERE tenant = ? AND root = ?", conversations)
    # Sessions that know the old version must look again, and find nothing.
    db.executemany("UPDATE conversations SET version = version + 1 WHERE tenant = ? AND root = ?", conversations)


def _size_of(db: sqlite3.Connection) -> int:
    """Return the bytes of the file that are in use."""
    pages, free, size = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _of(tenant: str | None) -> tuple[str, tuple[str, ...]]:
    """Build the condition for a tenant, given by its name or by its hash in the file."""
    return ("", ()) if tenant is None else ("WHERE tenant IN (?, ?)", (scope(tenant), tenant))


def _listed(keys: Sequence[str]) -> str:
    return json.dumps(list(keys))
