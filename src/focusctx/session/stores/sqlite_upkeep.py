"""Keep an SQLite store within its limits: remove whole conversations, least recently used first.

This happens within the commit that made the store grow, but only occasionally and for a bounded number of
conversations, so that events stay cheap. The file does not shrink: SQLite reuses the space of removed events. `VACUUM`
gives it back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from .retention import IN_USE, Limits

CONVERSATIONS = (
    "SELECT tenant, root, count(*), sum(length(record) + length(originals)), coalesce(max(used), 0)"
    " FROM events LEFT JOIN conversations USING (tenant, root) {where} GROUP BY tenant, root ORDER BY 5"
)
_OLDEST = (
    "SELECT tenant, root FROM conversations WHERE used < ?"
    " AND EXISTS (SELECT 1 FROM events WHERE events.tenant = conversations.tenant AND events.root = conversations.root)"
    " ORDER BY used LIMIT ?"
)
_MOST = 200
"""Most conversations removed at a time by age, or by size."""
_BETWEEN = 600.0
"""Seconds between two checks …"""
_SHARE = 64
"""… unless the store has grown by 1/64 of its size limit."""


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
        has_grown = limits.max_size is not None and self._grown * _SHARE >= limits.max_size
        if not has_grown and now - self._looked < _BETWEEN:
            return
        self._looked, self._grown = now, 0
        if limits.max_age is not None:
            remove(db, db.execute(_OLDEST, (now - limits.max_age, _MOST)).fetchall())
            # The version of a removed conversation stays longer, for sessions that remember the old one.
            db.execute("DELETE FROM conversations WHERE used < ?", (now - 2 * limits.max_age,))
        if limits.max_size is None:
            return
        if size_of(db) <= limits.max_size:
            return
        oldest = db.execute(_OLDEST, (now - IN_USE, _MOST)).fetchall()
        for conversation in oldest:
            remove(db, [conversation])
            if size_of(db) <= limits.max_size:
                return
        if len(oldest) == _MOST:
            self._looked = -float("inf")  # more is left to remove with the next event


def remove(db: sqlite3.Connection, conversations: Sequence[tuple[str, str]]) -> None:
    """Remove the events of these conversations, by tenant and root."""
    for table in ("events", "restored"):
        db.executemany(f"DELETE FROM {table} WHERE tenant = ? AND root = ?", conversations)
    # Sessions that know the old version must look again, and find nothing.
    db.executemany("UPDATE conversations SET version = version + 1 WHERE tenant = ? AND root = ?", conversations)


def size_of(db: sqlite3.Connection) -> int:
    """Return the bytes of the file that are in use."""
    pages, free, size = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size
