"""The guard around a store: what fails or hangs is left alone, at nobody's expense, until it is well again."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from focusctx.errors import ConfigError, StoreError
from focusctx.proxy import guarded_store as store_module
from focusctx.proxy.guarded_store import GuardedStore
from focusctx.session.store import Store, StoredEvent, Totals
from focusctx.session.stores.sqlite import SQLiteStore
from helpers.session_parts import BreakableStore, wait_until
from helpers.stored import event, span

pytestmark = pytest.mark.usefixtures("bounded")

METHODS: dict[str, Callable[[Store], Any]] = {
    "version": lambda store: store.version("t", "r"),
    "events": lambda store: store.events("t", ["e1"]),
    "commit": lambda store: store.commit("t", "r", event("e1", "k"), [span("k")]),
    "archived": lambda store: store.archived("t", ["e1"]),
    "restore": lambda store: store.restore("t", "r", "k"),
    "restored": lambda store: store.restored("t", ["k"]),
    "add": lambda store: store.add("t", Totals(events=1)),
    "totals": lambda store: store.totals("t"),
}


class Hanging(BreakableStore):
    """Answers when it is let go, as a server might."""

    quick = False

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.hung = 0

    def version(self, tenant: str, root: str) -> int:
        self._hang()
        return super().version(tenant, root)

    def add(self, tenant: str, totals: Totals) -> None:
        self._hang()
        super().add(tenant, totals)

    def _hang(self) -> None:
        self.hung += 1
        self.go.wait(20)
        self.hung -= 1


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    store = Hanging()
    yield store
    store.go.set()


@pytest.mark.parametrize("quick", [False, True])
def test_a_store_that_is_well_is_just_that_store(quick: bool) -> None:
    plain = BreakableStore()
    inner = BreakableStore()
    inner.quick = quick
    guarded = GuardedStore(inner)
    assert guarded.quick is quick
    for ask in METHODS.values():
        assert ask(guarded) == ask(plain)
    guarded.close()


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("broken", ["version", "events", "commit", "archived", "restore", "restored", "add"])
def test_after_a_failure_it_is_left_alone_until_it_is_well(broken: str, quick: bool) -> None:
    inner = BreakableStore(broken)
    inner.quick = quick
    guarded = GuardedStore(inner, probe_interval=0.1)
    with pytest.raises(StoreError, match="disk is full"):
        METHODS[broken](guarded)
    asked = len(inner.asked)
    for ask in METHODS.values():
        with pytest.raises(StoreError, match="disk is full"):
            ask(guarded)
    assert len(inner.asked) == asked
    inner.broken.clear()
    assert wait_until(lambda: guarded.trouble is None, 2)
    for ask in METHODS.values():
        ask(guarded)
    guarded.close()


def test_one_who_waits_waits_no_longer_than_is_bearable(hanging: Hanging) -> None:
    guarded = GuardedStore(hanging, timeout=0.2, probe_interval=0.05)
    started = time.monotonic()
    with pytest.raises(StoreError, match="does not answer"):
        guarded.version("t", "r")
    assert 0.15 < time.monotonic() - started < 0.5
    started = time.monotonic()
    for _ in range(100):
        with pytest.raises(StoreError, match="does not answer"):
            guarded.totals("t")
    assert time.monotonic() - started < 0.1
    time.sleep(0.3)
    assert hanging.hung == 1, "while a call hangs, not even the one who looks after it asks again"
    hanging.go.set()
    assert wait_until(lambda: guarded.trouble is None, 2)
    assert guarded.version("t", "r") == 0
    guarded.close()


def test_many_who_ask_at_once_wait_at_once(hanging: Hanging) -> None:
    guarded = GuardedStore(hanging, timeout=0.2)
    with ThreadPoolExecutor(50) as threads:
        started = time.monotonic()
        asked = [threads.submit(guarded.version, "t", "r") for _ in range(200)]
        assert {type(future.exception()) for future in asked} == {StoreError}
        assert time.monotonic() - started < 1.5
    guarded.close()


class Queueing(BreakableStore):
    """Writes take their time, one after the other, as on a busy disk."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.quick = True
        self._seconds = seconds
        self._turn = threading.Lock()

    def commit(self, *arguments: Any) -> StoredEvent:
        with self._turn:
            time.sleep(self._seconds)
            return super().commit(*arguments)


def commit_at_once(guarded: GuardedStore, number: int) -> list[StoredEvent | BaseException | None]:
    with ThreadPoolExecutor(number) as threads:
        asked = [
            threads.submit(guarded.commit, "t", "r", event(f"e{place}", "k"), [span("k")]) for place in range(number)
        ]
        return [future.exception() or future.result() for future in asked]


def test_to_stand_behind_others_is_no_trouble() -> None:
    guarded = GuardedStore(Queueing(0.05), timeout=0.6)
    assert guarded.version("t", "r") == 0
    started = time.monotonic()
    stored = commit_at_once(guarded, 32)
    assert stored == [event(f"e{place}", "k") for place in range(32)]
    assert guarded.trouble is None
    assert time.monotonic() - started > 1.2, "the last ones stood for twice as long as the patience is"
    assert guarded.version("t", "r") == 32
    guarded.close()


def test_who_stands_behind_others_for_all_too_long_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_LONGEST", 0.3)
    guarded = GuardedStore(Queueing(0.05), timeout=0.2)
    started = time.monotonic()
    stored = commit_at_once(guarded, 64)
    assert time.monotonic() - started < 2.5, "all of them would take three seconds"
    assert {type(each) for each in stored} == {StoredEvent, StoreError}
    assert guarded.trouble == "the store does not answer"
    guarded.close()


def test_one_that_hangs_is_noticed_though_others_came_back_before(hanging: Hanging) -> None:
    guarded = GuardedStore(hanging, timeout=0.2)
    for _ in range(3):
        guarded.totals("t")
    started = time.monotonic()
    with pytest.raises(StoreError, match="does not answer"):
        guarded.add("t", Totals())
    assert 0.15 < time.monotonic() - started < 0.6
    guarded.close()


def test_threads_are_used_again_and_end_with_the_store() -> None:
    inner = BreakableStore()
    inner.quick = False
    before = threading.active_count()
    guarded = GuardedStore(inner)
    for _ in range(200):
        guarded.version("t", "r")
    assert threading.active_count() <= before + 3
    guarded.close()
    assert wait_until(lambda: threading.active_count() <= before, 2)


def test_closing_does_not_wait_for_what_hangs(hanging: Hanging) -> None:
    guarded = GuardedStore(hanging, timeout=0.1)
    with pytest.raises(StoreError):
        guarded.add("t", Totals())
    started = time.monotonic()
    guarded.close()
    assert time.monotonic() - started < 0.5


def test_what_the_program_did_wrong_is_no_trouble_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    guarded = GuardedStore(SQLiteStore(path))
    with pytest.raises(ConfigError, match="another program"):
        guarded.version("t", "r")
    assert guarded.trouble is None
    guarded.close()


def test_a_file_locked_by_another_program_is_given_up_on(tmp_path: Path) -> None:
    path = tmp_path / "focus.db"
    guarded = GuardedStore(SQLiteStore(path), timeout=0.2, probe_interval=0.05)
    guarded.add("t", Totals(events=1))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    with pytest.raises(StoreError, match="does not answer"):
        guarded.commit("t", "r", event("e1", "k"), [span("k")])
    assert time.monotonic() - started < 0.6
    other.execute("COMMIT")
    other.close()
    assert wait_until(lambda: guarded.trouble is None, 3)
    assert guarded.archived("t", ["e1"]) == [span("k")], "it was only slow: what it was asked for is done"
    guarded.close()
