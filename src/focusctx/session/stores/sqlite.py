"""A store in one file that many processes and threads share.

In WAL mode readers never wait for a writer, and a process that dies in the middle of a commit leaves nothing of
it behind. What was committed outlives the process, but is not forced onto the disk at once: the last commits before
a power failure may be lost, each of them whole.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

from ...errors import ConfigError
from ..store import Archived, StoredEvent, Totals
from .encoding import pack, pack_all, scope, unpack, unpack_all
from .sqlite_file import Connection

_GROW = (
    "INSERT INTO conversations VALUES (?, ?, 1)"
    " ON CONFLICT (tenant, root) DO UPDATE SET version = conversations.version + 1"
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
        self._reader = Connection(self.path)
        self._writer = Connection(self.path)

    def version(self, tenant: str, root: str) -> int:
        found = self._reader.rows(
            "SELECT version FROM conversations WHERE tenant = ? AND root = ?", scope(tenant), root
        )
        return int(found[0][0]) if found else 0

    def events(self, tenant: str, keys: Sequence[str]) -> dict[str, StoredEvent]:
        found = dict(self._reader.rows(f"SELECT key, record FROM events WHERE {_AMONG}", scope(tenant), _listed(keys)))
        return {key: unpack(found[key]) for key in keys if key in found}

    def recent(self, tenant: str, most: int) -> list[StoredEvent]:
        query = "SELECT record FROM events WHERE tenant = ? ORDER BY rowid DESC LIMIT ?"
        return [unpack(data) for (data,) in self._reader.rows(query, scope(tenant), most)]

    def commit(self, tenant: str, root: str, event: StoredEvent, archived: Sequence[Archived]) -> StoredEvent:
        owner = scope(tenant)
        row = (owner, event.key, pack(event), pack_all(archived))

        def write(db: sqlite3.Connection) -> StoredEvent:
            if db.execute("INSERT INTO events VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row).rowcount:
                db.execute(_GROW, (owner, root))
                return event
            query = "SELECT record FROM events WHERE tenant = ? AND key = ?"
            (data,) = db.execute(query, (owner, event.key)).fetchone()
            return unpack(data)

        return self._writer.transaction(write)

    def together(self) -> AbstractContextManager[None]:
        """What this thread commits within it is written at once, as a whole or not at all."""
        return self._writer.together()

    def archived(self, tenant: str, events: Sequence[str]) -> list[Archived]:
        query = f"SELECT key, originals FROM events WHERE {_AMONG}"
        found = dict(self._reader.rows(query, scope(tenant), _listed(events)))
        return [span for key in events if key in found for span in unpack_all(found[key], key)]

    def restore(self, tenant: str, root: str, key: str) -> None:
        owner = scope(tenant)

        def write(db: sqlite3.Connection) -> None:
            if db.execute("INSERT INTO restored VALUES (?, ?) ON CONFLICT DO NOTHING", (owner, key)).rowcount:
                db.execute(_GROW, (owner, root))

        self._writer.transaction(write)

    def restored(self, tenant: str, keys: Sequence[str]) -> frozenset[str]:
        found = self._reader.rows(f"SELECT key FROM restored WHERE {_AMONG}", scope(tenant), _listed(keys))
        return frozenset(key for (key,) in found)

    def add(self, tenant: str, totals: Totals) -> None:
        owner = scope(tenant)
        rows = [(owner, name, value) for name, value in asdict(totals).items()]
        self._writer.transaction(lambda db: db.executemany(_ADD, rows))

    def totals(self, tenant: str) -> Totals:
        found = dict(self._reader.rows("SELECT name, value FROM totals WHERE tenant = ?", scope(tenant)))
        return Totals(**{name: found.get(name, zero) for name, zero in asdict(Totals()).items()})

    def close(self) -> None:
        """The file is let go of until the store is used again."""
        self._reader.close()
        self._writer.close()


def _listed(keys: Sequence[str]) -> str:
    return json.dumps(list(keys))
