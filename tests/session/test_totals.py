"""Totals reach the store together, whichever session they come from."""

import gc
import os
import threading
import time
import weakref
from typing import Any

import pytest

from focusctx.session import events as module
from focusctx.session.events import PendingTotals, pending_totals
from focusctx.session.store import MemoryStore, Totals
from helpers.session_parts import BreakableStore, Draft, cites, session_of, sized


def test_sessions_over_one_store_write_together() -> None:
    store = BreakableStore()
    sessions = [session_of(Draft(cites()), store, budget=600, tenant=f"t{number % 2}") for number in range(6)]
    for number, session in enumerate(sessions):
        session.view(sized(*[100] * 7, name=str(number)))
    assert store.asked.count("add") == 1, "the first one's, at once; the others wait for their turn"
    sessions[0].close()
    assert store.asked.count("add") == 3, "once for each tenant"
    assert [store.totals(tenant).events for tenant in ("t0", "t1")] == [3, 3]
    for session in sessions:
        session.close()
    assert store.asked.count("add") == 3


def test_they_are_due_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    store, pending = MemoryStore(), PendingTotals()
    monkeypatch.setattr(module, "_BETWEEN", 0.05)
    assert not pending.is_due
    pending.add(store, "t", Totals())
    assert not pending.is_due, "nothing is nothing to write"
    pending.add(store, "t", Totals(events=1, saved=0.5))
    assert pending.is_due
    pending.write(store)
    pending.add(store, "t", Totals(events=1))
    pending.add(store, "u", Totals(tokens_saved=3))
    assert not pending.is_due
    time.sleep(0.06)
    assert pending.is_due
    pending.write(store)
    assert (store.totals("t"), store.totals("u")) == (Totals(events=2, saved=0.5), Totals(tokens_saved=3))


def test_a_store_that_fails_loses_its_totals_and_nobody_else_theirs(caplog: pytest.LogCaptureFixture) -> None:
    store = BreakableStore("add")
    pending = pending_totals(store)
    pending.add(store, "t", Totals(events=1))
    pending.write(store)
    assert "savings could not be stored" in caplog.text
    assert not pending.is_due


def test_threads_add_without_losing_any() -> None:
    store, pending = MemoryStore(), PendingTotals()

    def work() -> None:
        for _ in range(500):
            pending.add(store, "t", Totals(events=1))
            if pending.is_due:
                pending.write(store)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pending.write(store)
    assert store.totals("t") == Totals(events=2000)


def test_a_store_is_not_held_by_what_waits_for_it() -> None:
    store = MemoryStore()
    assert pending_totals(store) is pending_totals(store)
    assert pending_totals(MemoryStore()) is not pending_totals(store)
    gone = weakref.ref(store)
    del store
    gc.collect()
    assert gone() is None


class NoKey:
    """Somebody's own store, which nothing can hold weakly."""

    __slots__ = ("_store",)

    def __init__(self) -> None:
        self._store = MemoryStore()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_store_that_cannot_be_a_key_is_written_to_all_the_same() -> None:
    store = NoKey()
    session = session_of(Draft(cites()), store, budget=600)
    session.view(sized(*[100] * 7))
    session.close()
    assert store.totals("default").events == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_what_waits_in_the_parent_is_not_written_by_a_child_too() -> None:
    store = MemoryStore()
    pending_totals(store).add(store, "t", Totals(events=1))
    child = os.fork()
    if child == 0:
        os._exit(int(pending_totals(store).is_due))
    assert os.waitpid(child, 0)[1] == 0
    assert pending_totals(store).is_due
