"""`focusctx store`: list, purge and vacuum an SQLite store."""

import io
import json
import sqlite3
import time
from dataclasses import asdict, replace

import pytest

from focusctx.session.store import Totals, scope
from focusctx.session.stores.sqlite import SQLiteStore
from helpers.stored import event, span

DAY = 24 * 3600


@pytest.fixture
def url(tmp_path):
    """Ann's conversation of today, and Bob's of three weeks ago."""
    now = [time.time() - 20 * DAY]
    store = SQLiteStore(tmp_path / "focus.db", clock=lambda: now[0])
    long = replace(span("a", "e1"), messages=({"role": "user", "content": "x" * 200_000},))
    store.commit("bob", "root of bob", event("e1", "a"), [long])
    now[0] = time.time()
    store.commit("ann", "root of ann", event("e2", "b"), [span("b", "e2")])
    store.commit("ann", "root of ann", event("e3", "c"), [span("c", "e3")])
    store.close()
    return f"sqlite:///{tmp_path}/focus.db"


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())


def test_list_shows_conversations_the_least_recently_used_first(focusctx, url, tmp_path):
    code, out, err = focusctx("store", "list", url)
    assert (code, err) == (0, "")
    head, bob, ann, total = out.splitlines()
    assert head.split() == ["last", "used", "tenant", "conversation", "events", "size"]
    assert (scope("bob") in bob, scope("ann") in ann) == (True, True)
    assert "195." in bob
    assert ann.split()[-3] == "2"
    assert total.startswith("2 conversations, 3 events, 19")
    assert f"{tmp_path}/focus.db has " in total


def test_list_of_one_tenant_as_json(focusctx, url):
    code, out, _ = focusctx("store", "list", url, "--tenant", "ann", "--json")
    (found,) = json.loads(out)["conversations"]
    assert code == 0
    assert (found["tenant"], found["root"], found["events"]) == (scope("ann"), "root of ann", 2)
    assert abs(found["used"] - time.time()) < 60
    assert json.loads(focusctx("store", "list", url, "--tenant", scope("ann"), "--json")[1]) == json.loads(out)


def test_a_path_will_do(focusctx, url, tmp_path):
    assert focusctx("store", "list", tmp_path / "focus.db") == focusctx("store", "list", url)


def test_purge_asks_before_it_removes(focusctx, url):
    code, _, err = focusctx("store", "purge", url)
    assert code == 2
    assert "2 conversations, 3 events" in err
    assert "would be removed" in err
    assert "add --yes to confirm" in err
    assert "2 conversations" in focusctx("store", "list", url)[1]


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("\n", 2)])
def test_purge_asks_at_a_terminal(focusctx, url, monkeypatch, answer, left):
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    code, _, err = focusctx("store", "purge", url)
    assert (code, "nothing was removed" in err) == ((0, False) if left == 0 else (2, True))
    assert len(json.loads(focusctx("store", "list", url, "--json")[1])["conversations"]) == left


def test_purge_by_age_and_then_vacuum(focusctx, url):
    code, out, _ = focusctx("store", "purge", url, "--older-than", "10d", "--yes")
    assert code == 0
    assert out.startswith("removed 1 conversation, 1 event, 195.")
    assert "focusctx store vacuum" in out
    assert focusctx("store", "purge", url, "--older-than", "10d", "--yes")[1].startswith("removed 0 conversations")
    code, out, _ = focusctx("store", "vacuum", url, "--json")
    sizes = json.loads(out)
    assert code == 0
    assert sizes["size_after"] < sizes["size_before"] - 150_000
    assert " before, " in focusctx("store", "vacuum", url)[1]


def test_purge_of_one_tenant_as_json(focusctx, url):
    _, out, _ = focusctx("store", "purge", url, "--tenant", "bob", "--yes", "--json")
    assert [each["root"] for each in json.loads(out)["removed"]] == ["root of bob"]
    assert [each["root"] for each in json.loads(focusctx("store", "list", url, "--json")[1])["conversations"]] == [
        "root of ann"
    ]


def test_what_cannot_be_looked_after_is_said_in_words(focusctx, tmp_path):
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    for url, said in [
        ("redis://localhost:1/0", "a Redis store needs no maintenance"),
        ("memory", "a memory store ends with its process"),
        (f"sqlite:///{tmp_path}/missing.db", "there is no store at"),
        (f"sqlite:///{tmp_path}/other.db", "the database of another program"),
        ("postgres://x", "unknown store URL"),
    ]:
        code, _, err = focusctx("store", "list", url)
        assert (code, said in err) == (2, True), err
    assert not (tmp_path / "missing.db").exists()


def test_a_wrong_age_is_said_in_words(focusctx, url):
    code, _, err = focusctx("store", "purge", url, "--older-than", "long", "--yes")
    assert (code, "--older-than must be an age such as 30d, 12h or 90m, not 'long'" in err) == (2, True)


def test_without_a_command_it_shows_its_help(focusctx):
    code, _, err = focusctx("store")
    assert code == 2
    assert "vacuum" in err


def test_export_prints_events_and_savings_and_no_text(focusctx, url, tmp_path):
    store = SQLiteStore(tmp_path / "focus.db")
    store.add("ann", Totals(events=2, tokens_saved=500, saved=0.5, drafts=0.125))
    store.close()
    code, out, err = focusctx("store", "export", url)
    assert (code, err) == (0, "")
    found = json.loads(out)
    bob, ann = found["conversations"]
    assert (bob["tenant"], [one["key"] for one in bob["events"]]) == (scope("bob"), ["e1"])
    assert (ann["root"], [one["key"] for one in ann["events"]]) == ("root of ann", ["e2", "e3"])
    assert ann["events"][0]["dropped"] == ["b"]
    assert found["totals"] == {scope("ann"): {**asdict(store.totals("ann")), "net": 0.375}}
    assert "xxx" not in out
    _, out, _ = focusctx("store", "export", url, "--tenant", "bob")
    assert [one["root"] for one in json.loads(out)["conversations"]] == ["root of bob"]
    assert json.loads(out)["totals"] == {}


def test_a_redis_store_is_not_exported(focusctx):
    code, _, err = focusctx("store", "export", "redis://127.0.0.1")
    assert code == 2
    assert "/ui/api/export" in err
