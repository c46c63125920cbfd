"""A store in one file that many processes and threads share.

In WAL mode readers never wait for a writer, and a process that dies in the middle of a commit leaves nothing of
it behind. A span's original and the decision to drop it are one row: there cannot be one without the other.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...errors import ConfigError, StoreError
from ..store import Archived, StoredEvent, Totals
from .encoding import pack, scope, unpack
from .fork import ForkSafe

_PATIENCE = 60.0
"""Seconds to wait for another process's write. A write takes milliseconds, but many may be queued."""

_APPLICATION = int.from_bytes(b"focu")
_VERSION = 1
_SCHEMA = (
    "CREATE TABLE conversations (tenant TEXT, root TEXT, version INTEGER NOT NULL, PRIMARY KEY (tenant, root))"
    " WITHOUT ROWID",
    "CREATE TABLE events (tenant TEXT, key TEXT, record BLOB NOT NULL, PRIMARY KEY (tenant, key))",
    "CREATE TABLE spans (tenant TEXT, key TEXT, dropped INTEGER NOT NULL, record BLOB NOT NULL,"
    " PRIMARY KEY (tenant, key))",
    "CREATE INDEX dropped_spans ON spans (tenant, key) WHERE dropped",
    # One row per total: a total that is added later needs no new schema.
    "CREATE TABLE totals (tenant TEXT, name TEXT, value NOT NULL, PRIMARY KEY (tenant, name)) WITHOUT ROWID",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)

_GROW = (
    "INSERT INTO conversations VALUES (?, ?, 1)"
    " ON CONFLICT (tenant, root) DO UPDATE SET version = conversations.version + 1"
)
_DROP = (
    "INSERT INTO spans VALUES (?, ?, 1, ?) ON CONFLICT (tenant, key)"
    # A span that is still dropped keeps the record of the event that dropped it.
    " DO UPDATE SET dropped = 1, record = excluded.record WHERE NOT spans.dropped"
)
_ADD = "INSERT INTO totals VALUES (?, ?, ?) ON CONFLICT (tenant, name) DO UPDATE SET value = value + excluded.value"
_AMONG = "tenant = ? AND key IN (SELECT value FROM json_each(?))"
"""One parameter for any number of keys: SQLite limits how many parameters a statement takes."""


class SQLiteStore:
    """The file is made at the first use; its folder must exist."""

    quick = True

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()  # a later chdir must not lead to another file
        if not self.path.parent.is_dir():
            raise ConfigError(f"the folder for the store does not exist: {self.path.parent}")
        if self.path.is_dir():
            raise ConfigError(f"the store must be a file, and this is a folder: {self.path}")
        # Two, so that a thread that reads does not wait while another one writes.
        self._reader = _Connection(self.path)
        self._writer = _Connection(self.path)

    def version(self, tenant: str, root: str) -> int:
        found = self._reader.rows(
            "SELECT version FROM conversations WHERE tenant = ? AND root = ?", scope(tenant), root
        )
        return int(found[0][0]) if found else 0

    def dropped(self, tenant: str, keys: Sequence[str]) -> frozenset[str]:
        found = self._reader.rows(f"SELECT key FROM spans WHERE dropped AND {_AMONG}", scope(tenant), _listed(keys))
        return frozenset(key for (key,) in found)

    def events(self, tenant: str, keys: Sequence[str]) -> dict[str, StoredEvent]:
        found = dict(self._reader.rows(f"SELECT key, record FROM events WHERE {_AMONG}", scope(tenant), _listed(keys)))
        return {key: unpack(StoredEvent, found[key]) for key in keys if key in found}

    def recent(self, tenant: str, most: int) -> list[StoredEvent]:
        query = "SELECT record FROM events WHERE tenant = ? ORDER BY rowid DESC LIMIT ?"
        return [unpack(StoredEvent, data) for (data,) in self._reader.rows(query, scope(tenant), most)]

    def commit(self, tenant: str, root: str, event: StoredEvent, archived: Sequence[Archived]) -> StoredEvent:
        owner, data = scope(tenant), pack(event)
        originals = [(owner, span.key, pack(span)) for span in archived]
        with self._writer.transaction() as db:
            new = db.execute("INSERT INTO events VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (owner, event.key, data))
            if new.rowcount:
                db.executemany(_DROP, originals)
                db.execute(_GROW, (owner, root))
            else:
                query = "SELECT record FROM events WHERE tenant = ? AND key = ?"
                (data,) = db.execute(query, (owner, event.key)).fetchone()
        return unpack(StoredEvent, data)

    def archived(self, tenant: str, keys: Sequence[str]) -> list[Archived]:
        found = dict(self._reader.rows(f"SELECT key, record FROM spans WHERE {_AMONG}", scope(tenant), _listed(keys)))
        return [unpack(Archived, found[key]) for key in keys if key in found]

    def restore(self, tenant: str, root: str, key: str) -> None:
        owner = scope(tenant)
        with self._writer.transaction() as db:
            query = "UPDATE spans SET dropped = 0 WHERE tenant = ? AND key = ? AND dropped"
            if db.execute(query, (owner, key)).rowcount:
                db.execute(_GROW, (owner, root))

    def add(self, tenant: str, totals: Totals) -> None:
        owner = scope(tenant)
        with self._writer.transaction() as db:
            db.executemany(_ADD, [(owner, name, value) for name, value in asdict(totals).items()])

    def totals(self, tenant: str) -> Totals:
        found = dict(self._reader.rows("SELECT name, value FROM totals WHERE tenant = ?", scope(tenant)))
        return Totals(**{name: found.get(name, zero) for name, zero in asdict(Totals()).items()})

    def close(self) -> None:
        """The file is let go of until the store is used again."""
        self._reader.close()
        self._writer.close()


def _listed(keys: Sequence[str]) -> str:
    return json.dumps(list(keys))


class _Connection(ForkSafe):
    """A connection for one thread at a time, opened when it is needed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._db: sqlite3.Connection | None = None

    def rows(self, query: str, *values: str | int) -> list[Any]:
        with self._open() as db:
            return db.execute(query, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing. The write lock is taken at the start, so that no other writer can come between."""
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                db.rollback()
                raise

    def close(self) -> None:
        with self._lock:
            self._rest()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._db is None:
                    self._db = _connect(self._path)
                yield self._db
            except sqlite3.Error as error:
                self._rest()  # the next use starts afresh, in case the trouble has passed
                raise StoreError(f"{self._path}: {error}") from error

    def _rest(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()


def _connect(path: Path) -> sqlite3.Connection:
    # Transactions are begun by hand, and `_Connection` lets only one thread in at a time.
    db = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        _prepare(db, path)  # first: another program's file must stay as it is
        _switch_to_wal(db)
        db.execute("PRAGMA synchronous = FULL")
    except BaseException:
        db.close()
        raise
    return db


def _switch_to_wal(db: sqlite3.Connection) -> None:
    """SQLite does not wait by itself where two connections switch at once: one is told that the file is locked."""
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
    if _schema_of(db) == (_APPLICATION, _VERSION):
        return
    db.execute("BEGIN IMMEDIATE")  # of several processes that find the file empty, one makes the tables
    application, version = _schema_of(db)
    if application == _APPLICATION and version > _VERSION:
        raise ConfigError(f"{path} was written by a newer focusctx (schema {version}, known here: {_VERSION})")
    if (application, version) != (_APPLICATION, _VERSION):
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
            raise ConfigError(f"{path} is the database of another program; give focusctx a file of its own")
        for statement in _SCHEMA:
            db.execute(statement)
    db.execute("COMMIT")


def _schema_of(db: sqlite3.Connection) -> tuple[int, int]:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return application, version
