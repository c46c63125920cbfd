"""Every store keeps the same promises: one suite for memory, a real SQLite file and a real Redis."""

import builtins
import copy
import itertools
import json
import multiprocessing
import os
import pickle
import resource
import signal
import sqlite3
import sys
import threading
import time
from collections import UserDict
from contextlib import closing
from dataclasses import replace

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.errors import ConfigError, MissingExtraError, StoreError
from focusctx.session.store import Spelled, StoredEvent, Totals
from focusctx.session.stores import sqlite_file, store_from
from focusctx.session.stores.memory import MemoryStore
from focusctx.session.stores.redis import RedisStore
from focusctx.session.stores.sqlite import SQLiteStore
from stored import event, free_port, redis_binary, redis_server, span


def test_an_empty_store_knows_nothing(store):
    assert store.version("t", "r") == 0
    assert store.events("t", ["a"]) == store.events("t", []) == {}
    assert store.archived("t", ["a"]) == store.archived("t", []) == []
    assert store.restored("t", ["a"]) == store.restored("t", []) == frozenset()
    assert store.totals("t") == Totals()


def test_a_commit_is_seen_whole(store):
    spans = [span("a"), span("b")]
    assert store.commit("t", "r", event("e1", "a", "b"), spans) == event("e1", "a", "b")
    assert store.archived("t", ["e0", "e1"]) == spans
    assert store.events("t", ["e0", "e1"]) == {"e1": event("e1", "a", "b")}
    assert store.version("t", "r") > 0
    assert store.version("t", "other") == 0


def test_an_event_that_dropped_nothing_is_stored_too(store):
    assert store.commit("t", "r", event("e1"), []) == event("e1")
    assert store.events("t", ["e1"]) == {"e1": event("e1")}
    assert store.version("t", "r") > 0


def test_the_newest_events_come_first(store):
    assert store.recent("t", 5) == []
    made = [event(f"e{number}", when=1700000000.0 + number) for number in range(4)]
    for number, one in enumerate(made):
        store.commit("t", f"r{number % 2}", one, [])
    store.commit("another", "r0", event("e9", when=1800000000.0), [])
    assert store.recent("t", 3) == [made[3], made[2], made[1]]
    assert store.recent("t", 9) == made[::-1]


def test_the_first_event_under_a_key_stands(store):
    first = store.commit("t", "r", event("e1", "a"), [span("a")])
    before = store.version("t", "r")
    assert store.commit("t", "r", event("e1", "b", tokens_after=1), [span("b")]) == first
    assert store.archived("t", ["e1"]) == [span("a")]
    assert store.version("t", "r") == before


def test_each_event_keeps_its_own_originals(store):
    """In two forks of a conversation the same span may go, for reasons of their own."""
    store.commit("t", "r", event("e1", "a"), [span("a", "e1")])
    store.commit("t", "r", event("e2", "a", "b"), [span("a", "e2"), span("b", "e2")])
    assert store.archived("t", ["e1"]) == [span("a", "e1")]
    assert store.archived("t", ["e2", "e1"]) == [span("a", "e2"), span("b", "e2"), span("a", "e1")]


def test_a_restored_span_is_archived_still_and_stays_restored(store):
    store.commit("t", "r", event("e1", "a", "b"), [span("a"), span("b")])
    before = store.version("t", "r")
    store.restore("t", "r", "a")
    assert store.restored("t", ["a", "b"]) == {"a"}
    assert store.archived("t", ["e1"]) == [span("a"), span("b")]
    restored = store.version("t", "r")
    assert restored > before
    store.commit("t", "r", event("e2", "a"), [span("a", "e2")])
    assert store.restored("t", ["a", "b"]) == {"a"}, "whoever did not know yet does not undo it"
    assert store.version("t", "r") > restored


def test_restoring_twice_changes_nothing_more(store):
    store.restore("t", "r", "a")
    before = store.version("t", "r")
    store.restore("t", "r", "a")
    assert store.version("t", "r") == before
    assert store.restored("t2", ["a"]) == frozenset()
    assert store.archived("t", ["a"]) == []


def test_totals_add_up(store):
    for _ in range(3):
        store.add("t", Totals(events=1, tokens_saved=10**12, saved=0.1, drafts=0.25, recalls=1e-7))
    store.add("t", Totals(rereads=-0.5))
    totals = store.totals("t")
    assert (totals.events, totals.tokens_saved) == (3, 3 * 10**12)
    assert type(totals.events) is type(totals.tokens_saved) is int
    assert (totals.saved, totals.drafts, totals.rereads) == pytest.approx((0.3, 0.75, -0.5))
    assert totals.recalls == pytest.approx(3e-7)
    assert store.totals("other") == Totals()


def test_many_keys_at_once(store):
    keys = [f"{number:064x}" for number in range(40_000)]
    store.commit("t", "r", event("e1", *keys[::40]), [span(key) for key in keys[::40]])
    for key in keys[::4000]:
        store.restore("t", "r", key)
    assert store.restored("t", keys) == set(keys[::4000])
    assert [each.key for each in store.archived("t", [*keys, "e1"])] == keys[::40]
    assert list(store.events("t", [*keys, "e1"])) == ["e1"]


def test_what_the_caller_changes_later_is_not_changed_here(store):
    message = {"role": "tool", "content": [{"text": "original"}]}
    store.commit("t", "r", event("e1", "a"), [span("a", messages=(message,))])
    message["content"][0]["text"] = "edited"
    (found,) = store.archived("t", ["e1"])
    found.messages[0]["content"].clear()
    assert store.archived("t", ["e1"])[0].messages == ({"role": "tool", "content": [{"text": "original"}]},)


def test_any_mapping_is_archived_as_an_object(store):
    store.commit("t", "r", event("e1", "a"), [span("a", messages=(UserDict(role="user", content=UserDict(x=1)),))])
    assert store.archived("t", ["e1"])[0].messages == ({"role": "user", "content": {"x": 1}},)


def test_what_is_no_json_is_refused_and_nothing_is_stored(store):
    bad = span("b", messages=({"role": "user", "content": object()},))
    with pytest.raises(StoreError, match="b cannot be stored as JSON"):
        store.commit("t", "r", event("e1", "a", "b"), [span("a"), bad])
    assert store.events("t", ["e1"]) == {}
    assert store.archived("t", ["e1"]) == []
    assert store.version("t", "r") == 0


def test_a_closed_store_opens_again_when_used(store):
    store.commit("t", "r", event("e1", "a"), [span("a")])
    store.close()
    store.close()
    assert store.archived("t", ["e1"]) == [span("a")]


def test_another_store_object_sees_the_same(shared_url):
    with closing(store_from(shared_url)) as store, closing(store_from(shared_url)) as other:
        store.commit("shared", "r", event("e1", "a"), [span("a")])
        store.add("shared", Totals(events=1))
        assert other.version("shared", "r") == store.version("shared", "r") > 0
        assert other.archived("shared", ["e1"]) == [span("a")]
        assert other.events("shared", ["e1"]) == {"e1": event("e1", "a")}
        assert other.totals("shared") == Totals(events=1)


def test_threads_share_a_store(store):
    answers: list[list[StoredEvent]] = []

    def work(number: int) -> None:
        mine = []
        for step in range(25):
            mine.append(store.commit("t", "r", event(f"e{step}", f"a{step}", when=number), [span(f"a{step}")]))
            assert store.archived("t", [f"e{step}"]) == [span(f"a{step}", f"e{step}")]
            store.add("t", Totals(events=1, saved=0.5))
        answers.append(mine)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert all(answer == answers[0] for answer in answers)
    assert store.totals("t") == Totals(events=200, saved=100.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_store_in_use_survives_a_fork(store, store_url):
    store.commit("t", "r", event("e1", "a"), [span("a")])
    forking = multiprocessing.get_context("fork")
    inherited, done = forking.Event(), forking.Event()

    def child() -> None:
        assert store.archived("t", ["e1"]) == [span("a")]
        inherited.set()
        assert done.wait(20)  # by now the parent's connection has been closed
        store.commit("t", "r", event("e2", "b"), [span("b", "e2")])
        assert list(store.events("t", ["e1", "e2"])) == ["e1", "e2"]

    process = forking.Process(target=child)
    process.start()
    assert inherited.wait(20)
    store.commit("t", "r", event("e3", "c"), [span("c", "e3")])
    store.close()
    done.set()
    process.join(20)
    assert process.exitcode == 0
    seen = ["a", "c"] if store_url == "memory" else ["a", "b", "c"]
    assert [each.key for each in store.archived("t", ["e1", "e2", "e3"])] == seen


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fork_while_other_threads_write(store):
    stop = threading.Event()

    def write() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            store.commit("t", "r", event(f"e{number}"), [span(f"a{number}")])

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # ends a child that hangs
                os._exit(0 if store.archived("t", ["e0"]) is not None else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# What each tenant sees, against the store in memory as the model.

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=())),  # half surrogate pairs too
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
KEYS = ["a", "b", "c", "d\"'", "é{x}:☃"]
ROOTS = ["r", "a"]
EVENTS = ["e", "f", "a"]
key_lists = st.lists(st.sampled_from(KEYS), max_size=6)
event_lists = st.lists(st.sampled_from(EVENTS), max_size=4)


@st.composite
def commits(draw):
    key = draw(st.sampled_from(EVENTS))
    gone = draw(st.lists(st.sampled_from(KEYS), max_size=3))
    one = st.dictionaries(st.text(), JSON, max_size=3)
    spans = [span(each, key, messages=tuple(draw(st.lists(one, max_size=2)))) for each in gone]
    return "commit", draw(st.sampled_from(ROOTS)), event(key, *gone, when=draw(st.floats(0, 2e9))), spans


operations = st.one_of(
    commits(),
    st.tuples(st.just("restore"), st.sampled_from(ROOTS), st.sampled_from(KEYS)),
    st.tuples(st.just("add"), st.builds(Totals, events=st.integers(0, 9), saved=st.sampled_from([-1.5, 0.0, 0.125]))),
    st.tuples(st.just("restored"), key_lists),
    st.tuples(st.just("archived"), event_lists),
    st.tuples(st.just("events"), event_lists),
    st.tuples(st.just("totals")),
)  # fmt: skip


def observe(store, tenant, operation):
    """What the operation answers and which conversations it changes. As text: 1, 1.0 and True differ."""
    name, *values = operation
    before = [store.version(tenant, root) for root in ROOTS]
    answer = getattr(store, name)(tenant, *values)
    after = [store.version(tenant, root) for root in ROOTS]
    grown = [new > old for new, old in zip(after, before, strict=True)]
    return repr(sorted(answer) if isinstance(answer, frozenset) else answer), grown


numbers = itertools.count()
names = st.sampled_from(["", "t", "{t}", "t:span", "naïve ☃", "\ud800", "'; DROP TABLE spans; --", "t" * 2000])


@settings(max_examples=80)
@given(first=names, second=names, steps=st.lists(st.tuples(st.integers(0, 1), operations), max_size=14))
def test_each_tenant_sees_what_it_would_see_alone_in_memory(lasting_store, first, second, steps):
    number = next(numbers)
    tenants = [f"{first}{number}", f"{second}{number}:"]
    models = [MemoryStore(), MemoryStore()]
    for who, operation in steps:
        assert observe(lasting_store, tenants[who], operation) == observe(models[who], "alone", operation)
    look = [("restored", KEYS), ("archived", EVENTS), ("events", EVENTS), ("totals",)]
    for who, operation in itertools.product((0, 1), look):
        assert observe(lasting_store, tenants[who], operation) == observe(models[who], "alone", operation)


ANY = JSON | st.just(float("nan")) | st.sampled_from([float("inf"), -0.0, 10**400, "\ud83d", "𝄞", "\x00\u2028"])
MESSAGES = st.dictionaries(st.text(st.characters(exclude_categories=())), ANY, max_size=4)


@settings(max_examples=100)
@given(message=MESSAGES, reason=st.text(st.characters(exclude_categories=())))
def test_messages_come_back_as_they_were(lasting_store, message, reason):
    tenant = f"verbatim {next(numbers)}"
    kept = span("a", messages=(message, message), reason=reason)
    lasting_store.commit(tenant, "r", event("e1", "a"), [kept])
    assert repr(lasting_store.archived(tenant, ["e1"])) == repr([kept])


@settings(max_examples=100)
@given(message=MESSAGES, ascii=st.booleans(), indent=st.sampled_from([None, 2]))
def test_a_message_is_stored_in_the_bytes_it_came_in(lasting_store, message, ascii, indent):
    """What was read from them is read from them again."""
    tenant = f"spelled {next(numbers)}"
    came = json.dumps(message, ensure_ascii=ascii, indent=indent).encode("utf-8", "surrogatepass")
    spelled = Spelled(json.loads(came), came)
    lasting_store.commit(tenant, "r", event("e1", "a"), [span("a", messages=(spelled,))])
    (found,) = lasting_store.archived(tenant, ["e1"])
    assert repr(found.messages) == repr((json.loads(came),)) == repr((dict(spelled),))


def test_a_copy_of_a_spelled_message_may_be_edited():
    spelled = Spelled({"role": "user", "content": ["a"]}, b'{"role":"user","content":["a"]}')
    for made in (copy.copy(spelled), copy.deepcopy(spelled), pickle.loads(pickle.dumps(spelled)), spelled.copy()):
        assert made == spelled
        assert type(made) is dict


# Naming a store.


def test_store_from_a_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert isinstance(store_from(), MemoryStore)
    assert isinstance(store_from("memory"), MemoryStore)
    relative, absolute = store_from("sqlite:///focus.db"), store_from(f"sqlite:///{tmp_path}/other.db")
    assert isinstance(relative, SQLiteStore)
    assert (relative.path, absolute.path) == (tmp_path / "focus.db", tmp_path / "other.db")
    assert isinstance(store_from("redis://localhost:1/0"), RedisStore)
    assert isinstance(store_from("rediss://localhost:1/0?ttl=60"), RedisStore)
    own = MemoryStore()
    assert store_from(own) is own


@pytest.mark.parametrize(
    "url",
    ["", "sqlite", "sqlite:focus.db", "sqlite://focus.db", "sqlite:///", "sqlite:///:memory:", "redis:localhost",
     "postgres://me:secret@host/db", "focus.db", None, 3],
)  # fmt: skip
def test_anything_else_is_refused_with_the_forms_there_are(url):
    with pytest.raises(ConfigError, match="sqlite:////folder") as caught:
        store_from(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("query", ["ttl=soon", "ttl=0", "ttl=-1", "colour=red", "socket_timeout=long"])
def test_a_wrong_redis_option_is_refused(query):
    with pytest.raises(ConfigError) as caught:
        store_from(f"redis://:secret@localhost:1/0?{query}")
    assert "secret" not in str(caught.value)


def test_redis_is_an_extra(monkeypatch):
    load = builtins.__import__

    def without_redis(name, globals=None, locals=None, fromlist=(), level=0):
        if level == 0 and name.split(".")[0] == "redis":
            raise ImportError(name)
        return load(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", without_redis)
    with pytest.raises(MissingExtraError, match=r"focusctx\[redis\]"):
        store_from("redis://localhost:1/0")


# SQLite when things go wrong.


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


def test_a_newer_schema_is_not_touched(tmp_path):
    path = tmp_path / "focus.db"
    with closing(SQLiteStore(path)) as store:
        store.version("t", "r")
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match="newer focusctx"):
        SQLiteStore(path).version("t", "r")


def test_a_lock_that_stays_is_an_error_and_leaves_the_store_usable(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "_PATIENCE", 0.05)
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


# Redis: expiry, and when things go wrong.


def ttls(url: str) -> dict[bytes, int]:
    with redis.Redis.from_url(url) as client:
        return {key: client.ttl(key) for key in client.scan_iter()}


@pytest.fixture
def empty_redis(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
        yield redis_url


def test_everything_in_redis_expires(empty_redis):
    with closing(store_from(f"{empty_redis}?ttl=1000")) as store:
        store.commit("t", "r", event("e1", "a", "b"), [span("a"), span("b")])
        store.restore("t", "r", "b")
        store.add("t", Totals(events=1))
        store.version("t", "never")
        store.restored("t", ["never"])
    left = ttls(empty_redis)
    assert len(left) == 5  # the event, its originals, the mark of the span, the version, the totals
    assert all(key.startswith(b"focusctx:{") for key in left)
    assert all(990 <= ttl <= 2000 for ttl in left.values())


def test_thirty_days_unless_told(empty_redis):
    with closing(store_from(empty_redis)) as store:
        store.add("t", Totals(events=1))
    (left,) = ttls(empty_redis).values()
    assert 30 * 86400 - 10 < left <= 30 * 86400


def test_asking_renews_and_an_event_never_outlives_its_originals(empty_redis):
    with closing(store_from(f"{empty_redis}?ttl=1000")) as store, redis.Redis.from_url(empty_redis) as client:
        store.commit("t", "r", event("e1", "a", "b"), [span("a"), span("b")])
        store.restore("t", "r", "a")

        def left_after(ask) -> dict[str, int]:
            for key in client.scan_iter():
                client.expire(key, 50)
            ask()
            return {key.decode().split("}:")[1]: ttl for key, ttl in ttls(empty_redis).items()}

        def renewed(left: dict[str, int]) -> set[str]:
            return {key for key, ttl in left.items() if ttl > 50}

        assert renewed(left_after(lambda: store.restored("t", ["a", "b"]))) == {"restored:a"}
        assert renewed(left_after(lambda: store.events("t", ["e1"]))) == {"originals:e1", "event:e1"}
        assert renewed(left_after(lambda: store.version("t", "r"))) == {"version:r"}


def test_after_expiry_the_conversation_starts_anew_with_a_higher_version(empty_redis):
    with closing(store_from(f"{empty_redis}?ttl=1")) as store:
        store.commit("t", "r", event("e1", "a"), [span("a")])
        before = store.version("t", "r")
        time.sleep(2.1)
        assert store.archived("t", ["e1"]) == []
        assert store.events("t", ["e1"]) == {}
        assert store.version("t", "r") == 0
        second = event("e1", "a", tokens_after=1)
        assert store.commit("t", "r", second, [span("a", text="new")]) == second
        assert store.archived("t", ["e1"]) == [span("a", text="new")]
        assert store.version("t", "r") > before


def test_no_server_is_an_error(monkeypatch):
    store = store_from(f"redis://:secret@127.0.0.1:{free_port()}/0")
    calls = [
        lambda: store.version("t", "r"),
        lambda: store.restored("t", ["a"]),
        lambda: store.events("t", ["a"]),
        lambda: store.archived("t", ["a"]),
        lambda: store.commit("t", "r", event("e1", "a"), [span("a")]),
        lambda: store.restore("t", "r", "a"),
        lambda: store.add("t", Totals(events=1)),
        lambda: store.totals("t"),
    ]
    for call in calls:
        with pytest.raises(StoreError, match="Redis: ") as caught:
            call()
        assert "secret" not in str(caught.value)
    store.close()


@pytest.mark.skipif(redis_binary() is None, reason="no redis-server on PATH (scripts/redis installs it)")
class TestRedisServers:
    """Servers in states that the shared one must not be in."""

    def test_a_full_server_stores_nothing_of_a_commit(self, tmp_path):
        with redis_server(tmp_path, "--maxmemory", "3mb") as url, closing(store_from(url)) as store:
            stored = []

            def fill() -> None:
                for number in range(1000):
                    keys = [f"a{number}", f"b{number}"]
                    spans = [span(key, text="x" * 5000) for key in keys]
                    stored.append(store.commit("t", "r", event(f"e{number}", *keys), spans))

            with pytest.raises(StoreError, match="maxmemory"):
                fill()
            assert len(stored) > 0
            assert store.version("t", "r") > 0  # reading goes on
            events = [f"e{number}" for number in range(1000)]
            assert list(store.events("t", events).values()) == stored
            keys = [f"{letter}{number}" for number in range(len(stored)) for letter in "ab"]
            assert [each.key for each in store.archived("t", events)] == keys

    def test_a_cluster_finds_all_keys_of_a_call_on_one_node(self, tmp_path):
        with redis_server(tmp_path, "--cluster-enabled", "yes") as url:
            with redis.Redis.from_url(url) as client:
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
                    time.sleep(0.05)
            single = store_from(url)
            many = RedisStore(redis.RedisCluster.from_url(url))
            for number, store in enumerate([single, many]):
                for tenant in (f"a}}{number}", f"{{b}}{number}"):
                    store.commit(tenant, "r", event("e1", "a", "{b}"), [span("a"), span("{b}")])
                    store.restore(tenant, "r", "a")
                    assert store.restored(tenant, ["a", "{b}"]) == {"a"}
                    assert store.archived(tenant, ["e1"]) == [span("a"), span("{b}")]
                    assert store.events(tenant, ["e1", "e2"]) == {"e1": event("e1", "a", "{b}")}
                    store.add(tenant, Totals(events=1))
                    assert store.totals(tenant) == replace(Totals(), events=1)
                    assert store.version(tenant, "r") > 0
                store.close()
