"""Every store keeps the same promises: one suite for memory, a real SQLite file and a real Redis."""

import itertools
import multiprocessing
import os
import signal
import threading
from collections import UserDict
from contextlib import closing

import pytest

from focusctx.errors import StoreError
from focusctx.session.store import StoredEvent, Totals
from focusctx.session.stores import store_from
from helpers.stored import event, span


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
