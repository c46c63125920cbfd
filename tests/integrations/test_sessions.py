"""The sessions that an integration has open: how many, for how long, and from which threads and processes."""

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from focusctx import Focus
from focusctx.integrations.plug import Caller, Plug
from focusctx.session.session import Session
from focusctx.session.stores import store_from
from helpers.session_parts import Draft, crosses, sized

CHAT = "chat_completions"
ME = Caller(framework="a test")


def focus_of() -> Focus:
    return Focus(Draft(), budget=300, tokens=crosses)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc")
def test_open_files_are_bounded_and_totals_are_written(tmp_path: Path) -> None:
    """Four hundred conversations of two hundred tenants, each tenant with a file of its own."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    focus, made = focus_of(), set[str]()

    def make(caller: Caller) -> Session:
        made.add(caller.tenant)
        return focus.session(f"sqlite:///{tmp_path / caller.tenant}.db", tenant=caller.tenant)

    plug = Plug(make)
    most = 0
    for number in range(400):
        sizes = [100] * (5 if number < 200 else 1)
        plug.view(sized(*sizes), CHAT, Caller(tenant=f"t{number % 200}", id=str(number)))
        most = max(most, len(list(Path("/proc/self/fd").iterdir())) - before)
    assert len(made) == 200
    assert most < 400
    first = store_from(f"sqlite:///{tmp_path / 't0'}.db")
    assert first.totals("t0").events == 1  # its session was closed long ago
    first.close()
    assert plug.savings.events == 200
    plug.close()
    assert plug.savings.events == 200
    assert sum(event.happened for event in plug.events) == 200
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_a_session_in_use_is_closed_when_its_last_user_is_done() -> None:
    """Another thread may close the plug, or push the session out, while a view is under way."""
    sessions: list[Session] = []
    started, go_on = threading.Event(), threading.Event()

    class Slow(Session):
        is_closed = False

        def view(self, messages: Any, **more: Any) -> Any:
            started.set()
            assert go_on.wait(20)
            assert not self.is_closed
            return super().view(messages, **more)

        def close(self) -> None:
            self.is_closed = True
            super().close()

    def make(caller: Caller) -> Session:
        sessions.append(Slow(focus_of(), tenant=caller.tenant))
        return sessions[-1]

    plug = Plug(make)
    with ThreadPoolExecutor(1) as pool:
        view = pool.submit(plug.view, sized(10), CHAT, ME)
        assert started.wait(20)
        plug.close()
        assert not sessions[0].is_closed
        go_on.set()
        assert len(view.result(20)) == len(sized(10))
    assert sessions[0].is_closed


def test_threads_that_come_at_once_get_one_session() -> None:
    made: list[Session] = []
    closed: list[Session] = []
    gate = threading.Barrier(4)

    class Noted(Session):
        def close(self) -> None:
            closed.append(self)
            super().close()

    def make(caller: Caller) -> Session:
        gate.wait(20)
        made.append(Noted(focus_of(), tenant=caller.tenant))
        return made[-1]

    plug = Plug(make)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: plug.view(sized(10, name=f" {number}"), CHAT, ME), range(4)))
    assert len(made) == 4
    assert len(closed) == 3
    assert len(plug.conversations) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_while_other_threads_make_views() -> None:
    """As of a server that loads the agent before it starts its workers."""
    plug, is_over = Plug(focus_of()), threading.Event()

    def work() -> None:
        while not is_over.is_set():
            plug.view(sized(10, 10), CHAT, ME)
            _ = plug.savings

    with ThreadPoolExecutor(2) as pool:
        workers = [pool.submit(work) for _ in range(2)]
        try:
            for _ in range(10):
                child = multiprocessing.get_context("fork").Process(target=plug.view, args=(sized(10, 10), CHAT, ME))
                child.start()
                child.join(30)
                assert child.exitcode == 0
        finally:
            is_over.set()
        for worker in workers:
            worker.result(30)
