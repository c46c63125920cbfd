"""A store in one file that many processes and threads share.

In WAL mode readers never wait for a writer, and a process that dies during a commit leaves nothing of it behind.
Committed data outlives the process, but is not forced to disk at once: a power failure may lose the last commits, each
as a whole.

The store is kept within its limits: whole conversations are removed, least recently used first. This happens within the
commit that made the store grow, but only occasionally and for a bounded number of conversations, so that events stay
cheap. The file does not shrink: SQLite reuses the space of removed events. `vacuum` gives it back.

An event is one row, with the originals of all spans that it dropped and the root of its conversation. A file with
another layout is refused.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...errors import ConfigError, StoreError
from ..fork import ForkSafe
from ..retention import DAY, IN_USE, Limits
from ..store import Archived, StoredEvent, Totals, pack, pack_all, scope, unpack, unpack_all

T = TypeVar("T")

_PATIENCE = 60.0
"""Seconds to wait for another process's write. A write takes milliseconds, but many may be queued."""

_APPLICATION = int.from_bytes(b"focu")
_VERSION = 3
_TABLES = {
    "conversations": "CREATE TABLE conversations"
    " (tenant TEXT, root TEXT, version INTEGER NOT NULL, used REAL NOT NULL DEFAULT 0, PRIMARY KEY (tenant, root))"
    " WITHOUT ROWID",
    "events": "CREATE TABLE events"
    " (tenant TEXT, key TEXT, record BLOB NOT NULL, originals BLOB NOT NULL, root TEXT NOT NULL DEFAULT '',"
    " PRIMARY KEY (tenant, key))",
    "restored": "CREATE TABLE restored"
    " (tenant TEXT, key TEXT, root TEXT NOT NULL DEFAULT '', PRIMARY KEY (tenant, key)) WITHOUT ROWID",
    # One row per total: a new total needs no new layout.
    "totals": "CREATE TABLE totals (tenant TEXT, name TEXT, value NOT NULL, PRIMARY KEY (tenant, name)) WITHOUT ROWID",
}
_INDEXES = (
    "CREATE INDEX events_of_conversation ON events (tenant, root)",
    "CREATE INDEX restored_of_conversation ON restored (tenant, root)",
    "CREATE INDEX conversations_by_use ON conversations (used)",
)
_MARKS = (f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {_VERSION}")

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


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A stored conversation, as listed by `focusctx store`."""

    tenant: str
    """The tenant's hash."""
    root: str
    events: int
    size: int
    """Bytes of its events and originals."""
    used: float
    """Seconds since the epoch, to within a minute or two."""


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


class Connection(ForkSafe):
    """A connection used by one thread at a time, opened on demand."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._together: int | None = None
        """The thread whose writes form one transaction."""
        self._has_failed = False

    def __del__(self) -> None:
        self._rest()  # from Python 3.13 on, a connection that is left to the garbage collector causes a warning

    def rows(self, query: str, *values: str | int) -> list[Any]:
        with self._lock:
            return self._try(lambda db: db.execute(query, values).fetchall())

    def transaction(self, write: Callable[[sqlite3.Connection], T]) -> T:
        """Run `write` in a transaction. The write lock is taken at the start, so that no other writer can interfere."""

        def whole(db: sqlite3.Connection) -> T:
            if not db.in_transaction:
                db.execute("BEGIN IMMEDIATE")
            try:
                done = write(db)
                if self._together is None:
                    db.execute("COMMIT")
            except BaseException:
                db.rollback()
                raise
            return done

        return self._use(whole)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run this thread's writes within the context as one transaction, all or nothing; also much cheaper."""
        with self._lock:
            self._together, self._has_failed = threading.get_ident(), False
            try:
                yield
                if self._has_failed:
                    raise StoreError(f"{self._path}: not all of it could be written")
                self._try(lambda db: db.commit())
            except BaseException:
                self._rest()
                raise
            finally:
                self._together = None

    def vacuum(self) -> None:
        """Rewrite the file without its empty pages."""
        with self._lock:
            self._try(lambda db: db.execute("VACUUM"))
            self._try(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())

    def close(self) -> None:
        with self._lock:
            self._rest()

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._together != threading.get_ident():
            with self._lock:
                return self._try(work)
        try:
            return self._try(work)
        except BaseException:
            self._has_failed = True  # the caller may ignore the error, but earlier writes are undone
            raise

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._db is None:
                self._db = _connect(self._path)
            return work(self._db)
        except sqlite3.Error as error:
            self._rest()  # the next use reconnects, in case the trouble has passed
            raise StoreError(f"{self._path}: {error}") from error

    def _rest(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()


def _create(path: Path) -> None:
    """Create the file, readable by its owner only. SQLite gives the files beside it the same permissions."""
    with suppress(OSError):  # it exists already, or SQLite will report the error
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _connect(path: Path) -> sqlite3.Connection:
    _create(path)
    # Transactions are begun explicitly, and `Connection` admits one thread at a time.
    db = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA page_size = 8192")  # only affects a new file: an event's originals fill many pages
        _prepare(db, path)  # before WAL: another program's file must stay unchanged
        _switch_to_wal(db)
        db.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        db.close()
        raise
    return db


def _switch_to_wal(db: sqlite3.Connection) -> None:
    """Switch to WAL mode. SQLite does not wait when two connections switch at once, but reports a locked file."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    if _layout_of(db) == (_APPLICATION, _VERSION):
        return
    db.execute("BEGIN IMMEDIATE")  # of several processes that find a new file, one prepares it
    application, version = _layout_of(db)
    if application == _APPLICATION and version != _VERSION:
        raise ConfigError(
            f"{path} was written by another version of focusctx (schema {version}, this one reads {_VERSION}); "
            "use that version, or give focusctx a new file"
        )
    if application != _APPLICATION:
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
            raise ConfigError(f"{path} is the database of another program; give focusctx a file of its own")
        for statement in (*_TABLES.values(), *_INDEXES, *_MARKS):
            db.execute(statement)
    db.execute("COMMIT")


def _layout_of(db: sqlite3.Connection) -> tuple[int, int]:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return application, version
