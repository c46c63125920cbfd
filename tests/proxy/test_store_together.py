"""What many conversations write at once is written together, and each still has its own answer."""

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from focusctx.errors import StoreError
from focusctx.proxy.guarded_store import GuardedStore
from focusctx.session.store import Totals
from focusctx.session.stores.sqlite import SQLiteStore
from helpers.stored import event, span

pytestmark = pytest.mark.usefixtures("nothing_left")


def said(store: SQLiteStore) -> list[str]:
    """What SQLite is told by the store's writer, from now on."""
    store.add("t", Totals())  # which opens it
    told: list[str] = []
    db = store._writer._db
    assert db is not None
    db.set_trace_callback(told.append)
    return told


def commits(guarded: GuardedStore, number: int) -> list[Callable[[], Any]]:
    keys = [f"e{place}" for place in range(number)]
    return [partial(guarded.commit, "t", f"r {key}", event(key, key), [span(key)]) for key in keys]


async def ask(guarded: GuardedStore, functions: list[Callable[[], Any]]) -> list[Any]:
    return await asyncio.gather(*map(guarded.on_a_thread, functions), return_exceptions=True)


async def test_writes_that_come_at_once_are_one_transaction(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "focus.db")
    guarded = GuardedStore(store)
    told = said(store)
    assert await ask(guarded, commits(guarded, 20)) == [event(f"e{place}", f"e{place}") for place in range(20)]
    assert told.count("COMMIT") == 1
    other = SQLiteStore(tmp_path / "focus.db")
    assert [other.version("t", f"r e{place}") for place in range(20)] == [1] * 20
    assert other.archived("t", ["e7"]) == [span("e7", "e7")]
    told.clear()
    for commit in commits(guarded, 3):
        await guarded.on_a_thread(commit)
    assert told.count("COMMIT") == 3, "one who is alone does not wait for others"
    other.close()
    guarded.close()


class Abrupt(BaseException):
    """What no `except Exception` catches."""


@pytest.mark.parametrize("error", [ValueError, Abrupt])
async def test_one_that_goes_wrong_takes_no_other_with_it(tmp_path: Path, error: type[BaseException]) -> None:
    store = SQLiteStore(tmp_path / "focus.db")
    guarded = GuardedStore(store)

    def wrong() -> None:
        raise error("wrong")

    first, second = commits(guarded, 2)
    good, bad, also_good = await ask(guarded, [first, wrong, second])
    assert (good, also_good) == (event("e0", "e0"), event("e1", "e1"))
    assert isinstance(bad, error)
    assert guarded.trouble is None
    assert [store.version("t", f"r e{place}") for place in range(2)] == [1, 1]
    guarded.close()


async def test_where_nothing_can_be_written_nobody_is_told_that_it_was(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "focus.db")
    guarded = GuardedStore(store)
    guarded.add("t", Totals())
    assert store._writer._db is not None
    store._writer._db.execute("PRAGMA query_only = 1")
    answers = await ask(guarded, commits(guarded, 5))
    assert {type(answer) for answer in answers} == {StoreError}
    assert guarded.trouble is not None
    with sqlite3.connect(tmp_path / "focus.db") as db:
        assert db.execute("SELECT count(*) FROM events").fetchone() == (0,)
    db.close()
    guarded.close()


def test_a_failure_that_nobody_minds_undoes_what_stands_beside_it(tmp_path: Path) -> None:
    """Totals are not missed; but what was written before them in the same transaction would be."""
    store = SQLiteStore(tmp_path / "focus.db")

    def write() -> None:
        store.commit("t", "r", event("e1", "k"), [span("k")])
        assert store._writer._db is not None
        store._writer._db.execute("PRAGMA query_only = 1")
        with pytest.raises(StoreError):
            store.add("t", Totals(events=1))
        store.commit("t", "r", event("e2", "l"), [span("l")])

    with pytest.raises(StoreError, match="not all of it"), store.together():
        write()
    assert store.version("t", "r") == 0
    assert store.events("t", ["e1", "e2"]) == {}
    store.commit("t", "r", event("e1", "k"), [span("k")])
    assert store.version("t", "r") == 1
    store.close()


async def test_others_wait_until_what_is_written_together_is_there(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "focus.db")
    with store.together():
        store.add("t", Totals(events=1))
        waiting = asyncio.create_task(asyncio.to_thread(store.add, "t", Totals(events=10)))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert store.totals("t") == Totals(), "nobody sees the half of it"
    await waiting
    assert store.totals("t") == Totals(events=11)
    store.close()
