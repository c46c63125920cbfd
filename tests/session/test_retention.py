"""Stores keep to their limits: by age and by size, the least recently used first, and never what is in use."""

import sqlite3
from dataclasses import replace

import pytest

from focusctx.errors import ConfigError
from focusctx.session.retention import DAY, IN_USE, Limits, seconds_of, spelled_size
from focusctx.session.store import MemoryStore, Totals, scope
from focusctx.session.stores import store_from
from focusctx.session.stores.sqlite import SQLiteStore
from helpers.session_parts import Draft, cites, growing, session_of, sized
from helpers.stored import event, span

MB = 1024**2


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def make(request, tmp_path, clock):
    """A store with limits, of either kind."""
    stores = []

    def made(*, max_age=None, max_size=None):
        limits = Limits(max_age, max_size)
        store = MemoryStore(limits, clock) if request.param == "memory" else SQLiteStore(tmp_path / "s", limits, clock)
        stores.append(store)
        return store

    yield made
    for store in stores:
        store.close()


def put(store, number, *, size=100_000, tenant="t"):
    """An event of a conversation of its own, whose original has about `size` bytes."""
    key = f"e{number}"
    original = replace(span(f"s{number}", key), messages=({"role": "user", "content": "x" * size},))
    store.commit(tenant, f"r{number}", event(key, f"s{number}"), [original])


def there(store, numbers, tenant="t"):
    return [number for number in numbers if store.archived(tenant, [f"e{number}"])]


def test_what_nobody_used_for_long_goes(make, clock):
    store = make(max_age=30 * DAY)
    put(store, 1)
    put(store, 2)
    store.restore("t", "r1", "s1")
    store.add("t", Totals(events=2))
    clock.now += 20 * DAY
    assert store.version("t", "r2") == 1, "read, and so used"
    clock.now += 11 * DAY
    put(store, 3)
    assert there(store, (1, 2, 3)) == [2, 3]
    assert store.events("t", ["e1", "e2", "e3"]).keys() == {"e2", "e3"}
    assert store.restored("t", ["s1"]) == frozenset()
    assert store.totals("t") == Totals(events=2), "the accounts stay"
    assert [each.key for each in store.recent("t", 9)] == ["e3", "e2"]


def test_the_least_recently_used_go_where_it_is_too_much(make, clock):
    store = make(max_size=2 * MB)
    for number in range(40):
        clock.now += IN_USE
        put(store, number)
        store.version("t", "r0")  # somebody works with the first one all the time
    left = there(store, range(40))
    assert left[0] == 0
    assert left[1:] == list(range(40))[-len(left) + 1 :], "the newest of the others"
    assert 10 <= len(left) <= 21


def test_what_is_in_use_stays_even_where_it_is_too_much(make, clock):
    store = make(max_size=1 * MB)
    for number in range(30):
        clock.now += 1
        put(store, number)
    assert there(store, range(30)) == list(range(30))
    clock.now += IN_USE + 1
    put(store, 30)
    assert len(there(store, range(31))) <= 11


def test_a_conversation_that_was_removed_is_never_counted_from_the_beginning_again(make, clock):
    store = make(max_age=DAY)
    put(store, 1)
    known = store.version("t", "r1")
    clock.now += 1.5 * DAY
    put(store, 2)
    assert store.version("t", "r1") != known
    put(store, 1)
    assert store.version("t", "r1") > known, "a session that remembers the old one looks again"


def test_a_session_goes_on_where_its_conversation_was_removed(make, clock):
    store = make(max_age=DAY)
    session = session_of(Draft(cites(2)), store, clock=clock)
    histories = growing(sized(*[100] * 8))
    for history in histories[:5]:
        session.view(history)
    assert len(session.view(histories[4])) < len(histories[4])
    clock.now += 2 * DAY
    put(store, 1, size=10)
    view = session.view(histories[5])
    assert view == histories[5] or session.events[-1].cause == "compressed"
    session.view(histories[6])
    assert session.recall(1), "and what it drops now can be recalled"


def test_without_limits_nothing_goes(make, clock):
    store = make()
    for number in range(20):
        put(store, number)
        clock.now += 100 * DAY
    assert there(store, range(20)) == list(range(20))


def test_a_file_that_is_kept_small_does_not_grow(tmp_path, clock):
    store = SQLiteStore(tmp_path / "s", Limits(None, 2 * MB), clock)
    for number in range(120):
        clock.now += IN_USE
        put(store, number)
    store.close()
    assert store.file_size < 3 * MB, "12 MB came"


@pytest.fixture
def asked(monkeypatch):
    """Every statement that SQLite runs on connections opened from here on."""
    statements = []
    connect = sqlite3.connect

    def traced(*args, **options):
        db = connect(*args, **options)
        db.set_trace_callback(statements.append)
        return db

    monkeypatch.setattr(sqlite3, "connect", traced)
    return statements


def test_looking_after_the_file_is_rare(tmp_path, clock, asked):
    store = SQLiteStore(tmp_path / "s", Limits(30 * DAY, 1024 * MB), clock)
    put(store, 0)
    assert any("PRAGMA" in line for line in asked)
    asked.clear()
    for number in range(1, 100):
        put(store, number, size=10)
    assert not [line for line in asked if "PRAGMA" in line or "conversations WHERE used" in line]
    store.close()


def test_use_is_written_with_other_writes_and_not_by_reading(tmp_path, clock, asked):
    store = SQLiteStore(tmp_path / "s", Limits(None, None), clock)
    put(store, 1)
    begun = clock.now
    clock.now += 1000
    store.version("t", "r1")  # opens the connection for reading
    asked.clear()
    for _ in range(50):
        store.version("t", "r1")
    assert len(asked) == 50
    assert all(line.startswith("SELECT") for line in asked)
    assert store.conversations()[0].used == begun
    store.add("t", Totals(events=1))
    assert store.conversations()[0].used == clock.now
    assert sum("UPDATE conversations SET used" in line for line in asked) == 1
    store.close()


def test_purge_and_vacuum(tmp_path, clock):
    store = SQLiteStore(tmp_path / "s", Limits(None, None), clock)
    for number in range(10):
        put(store, number, tenant="ann" if number % 2 else "bob")
        clock.now += DAY
    assert [(each.root, each.events) for each in store.conversations("bob")] == [(f"r{n}", 1) for n in (0, 2, 4, 6, 8)]
    assert {each.tenant for each in store.conversations("bob")} == {scope("bob")}
    assert store.conversations(scope("bob")) == store.conversations("bob"), "by the hash, too"
    assert [each.root for each in store.purge(tenant="bob", before=clock.now - 5 * DAY)] == ["r0", "r2", "r4"]
    assert [each.root for each in store.conversations()] == ["r1", "r3", "r5", "r6", "r7", "r8", "r9"]
    assert len(store.purge()) == 7
    before = store.file_size
    store.vacuum()
    assert store.file_size < before / 4
    store.close()


# ---------------------------------------------------------------------------------------------------- in a URL


def test_a_url_sets_the_limits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert store_from("memory").limits == Limits(30 * DAY, 512 * MB)
    assert store_from("memory?max_size=1.5MB&max_age=none").limits == Limits(None, int(1.5 * MB))
    assert store_from("sqlite:///f.db").limits == Limits(30 * DAY, 4096 * MB)
    both = store_from("sqlite:///f.db?max_age=12h&max_size=2GB")
    assert both.limits == Limits(DAY / 2, 2048 * MB)
    assert both.path == tmp_path / "f.db"


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("max_age=soon", "max_age must be an age such as 30d"),
        ("max_age=30", "max_age must be an age"),
        ("max_age=", "max_age must be an age"),
        ("max_age=0d", "max_age must be an age"),
        ("max_size=2XB", "max_size must be a size such as 2GB"),
        ("max_size=-1GB", "max_size must be a size"),
        ("ttl=5", "unknown store option 'ttl'; known: max_age, max_size"),
    ],
)
@pytest.mark.parametrize("url", ["memory", "sqlite:///f.db"])
def test_a_wrong_limit_is_refused(url, query, problem):
    with pytest.raises(ConfigError) as caught:
        store_from(f"{url}?{query}")
    assert problem in str(caught.value)


def test_ages_and_sizes_are_spelled():
    assert [seconds_of(text, "age") for text in ("45s", "90m", "2w", "1.5h")] == [45, 5400, 14 * DAY, 5400]
    assert [spelled_size(size) for size in (12, 2048, 3.5 * MB, 5000 * MB)] == ["12 B", "2.0 KB", "3.5 MB", "4.9 GB"]
