"""The file of the SQLite store: its tables, and connections to it.

An event is one row, with the originals of all spans that it dropped and the root of its conversation. A file with
another layout is refused.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from ...errors import ConfigError, StoreError
from .fork import ForkSafe

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
