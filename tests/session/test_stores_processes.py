"""Several processes on one store, and processes that are killed: nothing is lost, nothing contradicts."""

import multiprocessing
import os
import random
import signal
import sqlite3
import time
import traceback
from contextlib import closing

import pytest

from focusctx.session.store import Archived, StoredEvent, Totals
from focusctx.session.stores import store_from
from helpers.stored import event, span

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

PER_STEP = 5
"""Operations a process does at a step: version, commit, events, archived, add."""
TOGETHER = 20
"""Steps after which the processes wait for each other, so that none of them runs ahead."""


@pytest.fixture
def tenant(request):
    return request.node.name  # the Redis server is shared by all tests


def dropped_at(step: int) -> list[str]:
    """Neighbouring steps want to drop the same span too."""
    return [f"s{step}", f"s{step}b", f"s{step + 1}"]


def originals(step: int) -> list[Archived]:
    return [span(key, f"e{step}", text=f"{key} " * 200) for key in dropped_at(step)]


def run(url: str, tenant: str, number: int, steps: int, barrier, answers) -> None:
    """Run one process; it sends back the events that it got, or the error."""
    try:
        told: dict[str, StoredEvent] = {}
        version = 0
        with closing(store_from(url)) as store:
            for step in range(steps):
                if step % TOGETHER == 0:
                    barrier.wait(60)
                    if step // TOGETHER % barrier.parties != number:
                        time.sleep(0.01)  # each of them comes first now and then, however the machine is loaded
                mine = event(f"e{step}", *dropped_at(step), tokens_after=number, when=float(step))
                before, version = version, store.version(tenant, "r")
                assert version >= before
                told[mine.key] = store.commit(tenant, "r", mine, originals(step))
                assert store.events(tenant, [mine.key]) == {mine.key: told[mine.key]}
                assert [each.key for each in store.archived(tenant, [mine.key])] == dropped_at(step)
                store.add(tenant, Totals(events=1, tokens_saved=3, saved=0.25))
        answers.put((number, told))
    except BaseException:
        barrier.abort()
        answers.put((number, traceback.format_exc()))


@pytest.mark.parametrize("operations", [600, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("processes", [2, 4])
def test_processes_agree_on_every_event_and_lose_nothing(shared_url, tenant, processes, operations):
    forking = multiprocessing.get_context("fork")
    steps = operations // PER_STEP // processes
    barrier, answers = forking.Barrier(processes), forking.Queue()
    workers = [
        forking.Process(target=run, args=(shared_url, tenant, number, steps, barrier, answers))
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    told = dict(answers.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    answers.close()
    answers.join_thread()
    assert [each for each in told.values() if isinstance(each, str)] == []

    with closing(store_from(shared_url)) as store:
        stored = store.events(tenant, [f"e{step}" for step in range(steps)])
        assert len(stored) == steps
        assert all(each == stored for each in told.values())
        assert len({each.tokens_after for each in stored.values()}) > 1  # they did compete
        for step in range(steps):
            assert store.archived(tenant, [f"e{step}"]) == originals(step)
        count = steps * processes
        assert store.totals(tenant) == Totals(events=count, tokens_saved=3 * count, saved=count / 4)


@pytest.mark.parametrize("attempt", range(10))
def test_processes_that_find_no_file_make_it_once(tmp_path, attempt):
    forking = multiprocessing.get_context("fork")
    url, barrier = f"sqlite:///{tmp_path / 'focus.db'}", forking.Barrier(6)

    def work(number: int) -> None:
        with closing(store_from(url)) as store:
            barrier.wait(20)
            store.commit("t", "r", event(f"e{number}", f"a{number}"), [span(f"a{number}")])

    workers = [forking.Process(target=work, args=(number,)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 6
    with closing(store_from(url)) as store:
        assert len(store.archived("t", [f"e{number}" for number in range(6)])) == 6


def commit_until_killed(url: str, tenant: str, life: int, acknowledged) -> None:
    with closing(store_from(url)) as store:
        acknowledged.send_bytes(b"-1")
        for number in range(1_000_000):
            keys = [f"s{life}.{number}.{part}" for part in range(3)]
            spans = [span(key, text=f"{key} " * 500) for key in keys]
            store.commit(tenant, f"r{life}", event(f"e{life}.{number}", *keys), spans)
            acknowledged.send_bytes(str(number).encode())


def last_acknowledged(pipe) -> int:
    last = -1
    try:
        while pipe.poll():
            last = int(pipe.recv_bytes())
    except (EOFError, OSError, ValueError):
        pass  # the kill cut the last acknowledgement short
    return last


def check_life(store, tenant: str, life: int, acknowledged: int) -> int:
    """All that was acknowledged is there, and all that is there is whole. Returns the number of events."""
    events = [f"e{life}.{number}" for number in range(acknowledged + 3)]
    stored = store.events(tenant, events)
    assert list(stored) == events[: len(stored)]
    assert acknowledged + 1 <= len(stored) <= acknowledged + 2  # the last one may have been killed in its answer
    expected = [f"s{life}.{number}.{part}" for number in range(len(stored)) for part in range(3)]
    assert [key for each in stored.values() for key in each.dropped] == expected
    originals = [span(key, f"e{key[1:-2]}", text=f"{key} " * 500) for key in expected]
    assert store.archived(tenant, events) == originals
    assert (store.version(tenant, f"r{life}") > 0) == bool(stored)
    return len(stored)


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_a_process_killed_at_random_points_loses_nothing(shared_url, tenant, kills):
    forking = multiprocessing.get_context("fork")
    chance = random.Random(42)
    lives = []
    with closing(store_from(shared_url)) as store:
        for life in range(kills):
            ours, theirs = forking.Pipe(duplex=False)
            child = forking.Process(target=commit_until_killed, args=(shared_url, tenant, life, theirs))
            child.start()
            theirs.close()
            if life % 10:  # every tenth may be killed while it opens the store
                assert ours.poll(20)
            time.sleep(chance.uniform(0, 0.04))
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            assert child.exitcode == -signal.SIGKILL
            acknowledged = last_acknowledged(ours)
            ours.close()
            lives.append((acknowledged, check_life(store, tenant, life, acknowledged)))
        for life, (acknowledged, count) in enumerate(lives):
            assert check_life(store, tenant, life, acknowledged) == count
    assert sum(count for _, count in lives) > kills
    if shared_url.startswith("sqlite"):
        with closing(sqlite3.connect(shared_url.removeprefix("sqlite:///"))) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
