"""Files of the first layout, with one row for each span, are converted when they are opened, and nothing is lost."""

import json
import multiprocessing
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.errors import StoreError
from focusctx.session.store import Archived, StoredEvent, Totals
from focusctx.session.stores import sqlite_file
from focusctx.session.stores.encoding import scope
from focusctx.session.stores.sqlite import SQLiteStore
from session_parts import Draft, cites, growing, session_of, sized
from stored import event, span

VERSION_1 = """
CREATE TABLE conversations (tenant TEXT, root TEXT, version INTEGER NOT NULL, PRIMARY KEY (tenant, root)) WITHOUT ROWID;
CREATE TABLE events (tenant TEXT, key TEXT, record BLOB NOT NULL, PRIMARY KEY (tenant, key));
CREATE TABLE spans (tenant TEXT, key TEXT, dropped INTEGER NOT NULL, record BLOB NOT NULL, PRIMARY KEY (tenant, key));
CREATE INDEX dropped_spans ON spans (tenant, key) WHERE dropped;
CREATE TABLE totals (tenant TEXT, name TEXT, value NOT NULL, PRIMARY KEY (tenant, name)) WITHOUT ROWID;
PRAGMA application_id = 1718575989;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
"""


def packed(record: Archived | StoredEvent, **more: object) -> bytes:
    values = record._asdict() if isinstance(record, Archived) else asdict(record)
    text = json.dumps(values | more, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def old_file(
    path: Path,
    events: Sequence[StoredEvent],
    spans: Sequence[Archived],
    restored: Sequence[str] = (),
    tenant: str = "t",
) -> Path:
    owner = scope(tenant)
    with closing(sqlite3.connect(path)) as db:
        db.executescript(VERSION_1)
        db.execute("INSERT INTO conversations VALUES (?, 'r', 7)", (owner,))
        db.executemany("INSERT INTO events VALUES (?, ?, ?)", [(owner, each.key, packed(each)) for each in events])
        rows = [(owner, each.key, each.key not in restored, packed(each, text="in one text")) for each in spans]
        db.executemany("INSERT INTO spans VALUES (?, ?, ?, ?)", rows)
        db.execute("INSERT INTO totals VALUES (?, 'events', 3)", (owner,))
        db.commit()
    return path


def test_all_that_was_in_it_is_in_it(tmp_path: Path) -> None:
    events = [event("e2", "b", "a"), event("e1"), event("e3", "c", "a")]  # `a` was dropped in two forks
    spans = [span("a", "e2"), span("b", "e2"), span("c", "e3")]
    with closing(SQLiteStore(old_file(tmp_path / "focus.db", events, spans, restored=["b"]))) as store:
        assert store.events("t", ["e1", "e2", "e3"]) == {each.key: each for each in events}
        assert store.recent("t", 5) == events[::-1]
        assert store.archived("t", ["e2"]) == [spans[1], spans[0]]
        assert store.archived("t", ["e3"]) == [spans[2], span("a", "e3")]
        assert store.archived("t", ["e1"]) == []
        assert store.restored("t", ["a", "b", "c"]) == {"b"}
        assert store.version("t", "r") == 7
        assert store.totals("t") == Totals(events=3)
        assert store.commit("t", "r", event("e4", "d"), [span("d", "e4")]) == event("e4", "d")
        assert store.version("t", "r") == 8
    with closing(sqlite3.connect(tmp_path / "focus.db")) as db:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert names == {"conversations", "events", "restored", "totals"}
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


NUMBERS = st.floats() | st.integers(-(10**30), 10**30)
CONTENT = st.dictionaries(st.text(st.characters(exclude_categories=())), NUMBERS | st.text() | st.none(), max_size=4)


@settings(max_examples=25)
@given(messages=st.lists(CONTENT, min_size=1, max_size=3), text=st.text(st.characters(exclude_categories=())))
def test_messages_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, object]], text: str
) -> None:
    kept = span("a", messages=tuple(messages), reason=text)
    path = old_file(tmp_path_factory.mktemp("old") / "focus.db", [event("e1", "a")], [kept])
    with closing(SQLiteStore(path)) as store:
        assert repr(store.archived("t", ["e1"])) == repr([kept])


def test_a_session_goes_on_with_the_view_it_had(tmp_path: Path) -> None:
    steps = growing(sized(*[100] * 12))
    first = session_of(Draft(cites(2)), f"sqlite:///{tmp_path / 'new.db'}", budget=600)
    views = [first.view(history) for history in steps]
    dropped = first.recall("x" * 100) and first.conversations[0]._archived()
    assert len(views[-1]) < len(steps[-1])
    events = first.store.recent("default", 99)[::-1]
    first.close()

    old = old_file(tmp_path / "old.db", events, dropped, tenant="default")
    with closing(sqlite3.connect(old)) as db, closing(sqlite3.connect(tmp_path / "new.db")) as new:
        db.execute("DELETE FROM conversations")
        rows = new.execute("SELECT tenant, root, version FROM conversations").fetchall()
        db.executemany("INSERT INTO conversations VALUES (?, ?, ?)", rows)
        db.commit()
    later = session_of(Draft(cites(2)), f"sqlite:///{old}", budget=600)
    assert later.view(steps[-1]) == views[-1]
    assert later.recall("s_1") == dropped[:1] != []
    later.close()


def test_a_program_of_the_first_version_notices(tmp_path: Path) -> None:
    path = old_file(tmp_path / "focus.db", [event("e1", "a")], [span("a")])
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        assert len(old.execute("SELECT key FROM spans WHERE dropped").fetchall()) == 1
        with closing(SQLiteStore(path)) as store:
            assert store.archived("t", ["e1"]) == [span("a")]
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            old.execute("SELECT key FROM spans WHERE dropped")
        with pytest.raises(sqlite3.OperationalError, match="4 columns"):
            old.execute("INSERT INTO events VALUES ('t', 'e2', x'7b7d')")


def test_a_conversion_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old_file(tmp_path / "focus.db", [event("e1", "a")], [span("a")])
    monkeypatch.setattr(sqlite_file, "_MARKS", ("SELECT * FROM nowhere",))
    with pytest.raises(StoreError, match="nowhere"):
        SQLiteStore(path).version("t", "r")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT key FROM spans").fetchall() == [("a",)]
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    monkeypatch.undo()
    with closing(SQLiteStore(path)) as store:
        assert store.archived("t", ["e1"]) == [span("a")]


def test_what_was_damaged_is_left_out(tmp_path: Path) -> None:
    path = old_file(tmp_path / "focus.db", [event("e1", "a", "b")], [span("a"), span("b")])
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE spans SET record = x'ff' WHERE key = 'a'")
        db.commit()
    with closing(SQLiteStore(path)) as store:
        assert store.archived("t", ["e1"]) == [span("b")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_of_several_processes_one_converts(tmp_path: Path) -> None:
    keys = [f"a{number}" for number in range(300)]
    path = old_file(tmp_path / "focus.db", [event("e1", *keys)], [span(key, text="x" * 3000) for key in keys])
    forking = multiprocessing.get_context("fork")
    barrier = forking.Barrier(4)

    def work() -> None:
        with closing(SQLiteStore(path)) as store:
            barrier.wait(20)
            assert len(store.archived("t", ["e1"])) == 300

    workers = [forking.Process(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0] * 4
