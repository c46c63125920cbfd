"""SQLite when things go wrong, and what its file holds."""

import multiprocessing
import os
import resource
import signal
import sqlite3
import sys
import time
from contextlib import closing

import pytest

from focusctx.errors import ConfigError, StoreError
from focusctx.session.stores import sqlite, store_from
from focusctx.session.stores.sqlite import SQLiteStore
from helpers.stored import event, span


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"does not exist: .*nowhere"):
        store_from(f"sqlite:///{tmp_path}/nowhere/focus.db")
    with pytest.raises(ConfigError, match="is a folder"):
        store_from(f"sqlite:///{tmp_path}")


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("remember the milk " * 100)
    with pytest.raises(StoreError, match="not a database"):
        SQLiteStore(path).version("t", "r")
    assert path.read_text() == "remember the milk " * 100


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE spans (id)")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="another program"):
        SQLiteStore(path).version("t", "r")
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [1, 99])
def test_a_file_of_another_layout_is_refused_and_left_alone(tmp_path, version):
    path = tmp_path / "focus.db"
    with closing(SQLiteStore(path)) as store:
        store.version("t", "r")
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=f"schema {version}, this one reads 3.*give focusctx a new file"):
        SQLiteStore(path).version("t", "r")
    assert path.read_bytes() == before


def test_a_lock_that_stays_is_an_error_and_leaves_the_store_usable(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "_PATIENCE", 0.05)
    with closing(SQLiteStore(tmp_path / "focus.db")) as store:
        store.commit("t", "r", event("e1", "a"), [span("a")])
        with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="locked"):
                store.commit("t", "r", event("e2", "b"), [span("b")])
            assert list(store.events("t", ["e1", "e2"])) == ["e1"]  # readers do not wait for writers
        store.commit("t", "r", event("e2", "b"), [span("b")])
        assert list(store.events("t", ["e1", "e2"])) == ["e1", "e2"]


def test_a_damaged_file_is_an_error(tmp_path):
    with closing(SQLiteStore(tmp_path / "focus.db")) as store:
        store.commit("t", "r", event("e1", "a"), [span("a", text="x" * 50_000)])
        store.close()
        content = store.path.read_bytes()
        store.path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
        with pytest.raises(StoreError):
            store.archived("t", ["e1"])


def test_a_record_that_cannot_be_read_is_an_error(tmp_path):
    with closing(SQLiteStore(tmp_path / "focus.db")) as store:
        store.commit("t", "r", event("e1", "a"), [span("a")])
        with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
            for damaged in ("[{}]", "{}", "[", "3", '{"messages":[[]]}', '{"messages":3}', "[" * 100_000):
                db.execute("UPDATE events SET originals = ?, record = ?", (damaged.encode(), damaged.encode()))
                with pytest.raises(StoreError, match="originals cannot be read"):
                    store.archived("t", ["e1"])
                with pytest.raises(StoreError, match="event cannot be read"):
                    store.events("t", ["e1"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path):
    with closing(SQLiteStore(tmp_path / "focus.db")) as store:
        store.version("t", "r")

        def fill() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
            try:
                for number in range(100):
                    store.commit("t", "r", event(f"e{number}", f"a{number}"), [span(f"a{number}", text="x" * 20_000)])
            except StoreError:
                sys.exit(7)

        process = multiprocessing.get_context("fork").Process(target=fill)
        process.start()
        process.join(20)
        assert process.exitcode == 7
        events = [f"e{number}" for number in range(100)]
        stored = store.events("t", events)
        assert 0 < len(stored) < 100
        assert list(stored) == events[: len(stored)]
        assert [each.key for each in store.archived("t", events)] == [f"a{number}" for number in range(len(stored))]
        store.commit("t", "r", event("e100", "a100"), [span("a100")])


def test_tenants_are_not_named_in_the_file(tmp_path):
    with closing(SQLiteStore(tmp_path / "focus.db")) as store:
        store.commit("sk-very-secret", "r", event("e1", "a"), [span("a")])
    assert b"sk-very-secret" not in store.path.read_bytes()


def test_a_thousand_keys_are_looked_up_quickly(tmp_path):
    keys = [f"{number:064x}" for number in range(20_000)]
    with closing(SQLiteStore(tmp_path / "focus.db")) as store:
        for key in keys[::200]:
            store.commit("t", "r", event(key, key), [span(key, text="x" * 20_000)])
        took = []
        for start in range(0, 20_000, 1000):
            began = time.perf_counter()
            assert len(store.events("t", keys[start : start + 1000])) == 5
            took.append(time.perf_counter() - began)
    assert min(took) < 0.010


def test_a_connection_that_nobody_closed_is_closed_with_its_store(tmp_path):
    """From Python 3.13 on, SQLite's own objects warn when they are collected while open."""
    connection = sqlite.Connection(tmp_path / "focus.db")
    connection.rows("SELECT 1")
    db = connection._db
    assert db is not None
    del connection
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        db.execute("SELECT 1")
