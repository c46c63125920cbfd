"""No conversation waits for another: threads and event loops in any mix, and equal histories are drawn for once."""

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from focusctx import Focus
from focusctx.session import proposal
from focusctx.session import session as session_module
from focusctx.session.session import Session
from focusctx.session.store import MemoryStore
from focusctx.session.stores.sqlite import SQLiteStore
from helpers.session_parts import Draft, calls_in, cites, crosses, growing, moved, session_of, sized, wait_until

PATIENCE = 60.0


def at_once(*agents: Callable[[], Any]) -> list[Any]:
    """Run each on a thread; a thread that hangs fails the test instead of the suite."""
    found: list[Any] = [None] * len(agents)
    ready = threading.Barrier(len(agents))

    def work(number: int) -> None:
        ready.wait()
        try:
            found[number] = agents[number]()
        except BaseException as error:
            found[number] = error

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(agents))]
    for thread in threads:
        thread.start()
    end = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))
    assert not any(thread.is_alive() for thread in threads), "an agent hangs"
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return found


def run(session: Session, steps: int = 8, *, name: str = "", seconds: float = 0.0) -> Iterator[Any]:
    """An agent's histories; `name` tells its observations from another's, its opening is everybody's."""
    for history in growing(sized(*[100] * steps)):
        yield [{**m, "content": f"{name} {m['content']}"} if m["role"] == "tool" else m for m in history]
        time.sleep(seconds)


async def agent(session: Session, *, name: str = "", number: int = 8, **options: Any) -> Any:
    view = None
    for history in run(session, number, name=name):
        view = await session.aview(history, **options)
        await asyncio.sleep(0)
    return view


def session_over(draft: Draft, store: Any = "memory", **options: Any) -> Session:
    return session_of(draft, store, **{"ahead": 0.9, **options})


@pytest.mark.parametrize("ahead", [0.8, 1.0])
def test_four_threads_with_loops_of_their_own_and_one_opening(ahead: float) -> None:
    session = session_over(Draft(cites(2), seconds=0.02), ahead=ahead)
    views = at_once(*(lambda name=str(n): asyncio.run(agent(session, name=name)) for n in range(4)))
    for number, view in enumerate(views):
        assert view[3]["content"].startswith(f"{number} ")
        assert len(view) < 10
    session.close()


def test_threads_and_loops_in_any_mix_on_the_same_history() -> None:
    session = session_over(Draft(cites(2), seconds=0.02))

    def sync() -> Any:
        return [session.view(history) for history in run(session)][-1]

    views = at_once(*[sync, lambda: asyncio.run(agent(session))] * 4)
    assert {frozenset(calls_in(view)) for view in views} == {frozenset(calls_in(views[0]))}
    session.close()


@pytest.mark.parametrize("ids", [False, True])
async def test_rollouts_of_one_prompt_do_not_wait_for_each_other(ids: bool) -> None:
    """16 of them with a draft of 0.2 s: what one takes alone, and not sixteen times that."""

    async def rollouts(number: int) -> float:
        session = session_over(Draft(cites(2), seconds=0.2), ahead=1.0)
        started = time.perf_counter()
        views = await asyncio.gather(
            *(agent(session, name=str(n), **({"id": str(n)} if ids else {})) for n in range(number))
        )
        assert [view[3]["content"].split()[0] for view in views] == [str(n) for n in range(number)]
        return time.perf_counter() - started

    alone = await rollouts(1)
    assert await rollouts(16) < 4 * alone + 1.0, "on a busy machine; one after the other they take 16 times as long"


@pytest.mark.parametrize("ahead", [0.8, 1.0])
@pytest.mark.parametrize("url", ["memory", "sqlite"])
async def test_64_equal_rollouts_ask_the_draft_no_more_often_than_one(url: str, ahead: float, tmp_path: Any) -> None:
    alone = Draft(cites(2), seconds=0.05)
    one = await agent(session_over(alone, ahead=ahead))
    store = MemoryStore() if url == "memory" else SQLiteStore(tmp_path / "focus.db")
    together = Draft(cites(2), seconds=0.05)
    session = session_over(together, store, ahead=ahead)
    views = await asyncio.wait_for(asyncio.gather(*(agent(session) for _ in range(64))), PATIENCE)
    assert together.calls <= alone.calls
    assert all(view == one for view in views)
    session.close()
    store.close()


def test_equal_rollouts_on_threads_ask_the_draft_no_more_often_than_one() -> None:
    alone = Draft(cites(2), seconds=0.05)
    session = session_over(alone, ahead=1.0)
    one = [session.view(history) for history in run(session)][-1]
    together = Draft(cites(2), seconds=0.05)
    shared = session_over(together, ahead=1.0)
    views = at_once(*[lambda: [shared.view(history) for history in run(shared)][-1]] * 16)
    assert together.calls <= alone.calls
    assert all(view == one for view in views)


def test_sessions_over_one_store_share_sketches_under_way() -> None:
    draft, store = Draft(cites(2), seconds=0.1), MemoryStore()
    focus = Focus(draft, budget=300, tokens=crosses)
    history = sized(*[100] * 8)
    sessions = [focus.session(store, ahead=1.0) for _ in range(8)]
    views = at_once(*(lambda session=session: session.view(history) for session in sessions))
    assert draft.calls == 1
    assert all(view == views[0] for view in views)


def test_a_shared_draw_is_paid_for_once() -> None:
    from focusctx.types import Usage

    draft = Draft(cites(2), seconds=0.05, usage=Usage(1, 1000, 1000), name="gpt-4.1-mini")
    session = session_over(draft, ahead=1.0)
    history = sized(*[100] * 8)
    at_once(*[lambda: session.view(history)] * 8)
    assert draft.calls == 1
    alone = session_over(Draft(cites(2), usage=Usage(1, 1000, 1000), name="gpt-4.1-mini"), ahead=1.0)
    alone.view(history)
    assert session.savings.drafts == alone.savings.drafts > 0


async def test_who_shares_a_decision_and_the_very_messages_goes_on_alone() -> None:
    """A tree of rollouts in one program: the branches are made of the same objects."""
    draft = Draft(cites(2), seconds=0.05)
    session = session_over(draft, ahead=1.0)
    history = sized(*[100] * 8)
    views = await asyncio.gather(*(session.aview(history) for _ in range(8)))
    assert draft.calls == 1
    ends = [{"role": "user", "content": f"Branch {number}."} for number in range(8)]
    longer = await asyncio.gather(*(session.aview([*history, end]) for end in ends))
    assert [list(view) for view in longer] == [[*views[0], end] for end in ends]
    assert moved(session)[0].result.messages == views[0]


def test_tenants_share_no_sketches() -> None:
    draft, store = Draft(cites(2), seconds=0.1), MemoryStore()
    focus = Focus(draft, budget=300, tokens=crosses)
    history = sized(*[100] * 8)
    sessions = [focus.session(store, tenant=tenant, ahead=1.0) for tenant in ("ann", "bob")]
    at_once(*(lambda session=session: session.view(history) for session in sessions))
    assert draft.calls == 2


async def test_three_hundred_conversations_at_once_are_drawn_for_once_each() -> None:
    draft = Draft(cites(2))
    session = session_over(draft, ahead=1.0)
    for history in growing(sized(*[100] * 5)):
        for number in range(300):
            own = [{**m, "content": f"{number} {m['content']}"} if m["role"] == "tool" else m for m in history]
            await session.aview(own)
    assert len(session.conversations) == 300
    assert draft.calls == len(moved(session)) == 300


# ------------------------------------------------------------------------------------------- when a draw is lost


async def test_who_waits_goes_on_when_the_first_is_cancelled() -> None:
    draft = Draft(cites(2), seconds=0.1)
    session = session_over(draft, ahead=1.0)
    history = sized(*[100] * 8)
    first, second = (asyncio.create_task(session.aview(history)) for _ in range(2))
    while not draft.under_way:
        await asyncio.sleep(0)
    first.cancel()
    assert len(await asyncio.wait_for(second, PATIENCE)) < 10
    assert draft.calls == 1, "it goes on for the one who still waits"


def test_who_waits_starts_again_when_the_loop_of_the_first_ends() -> None:
    draft = Draft(cites(2), seconds=0.3)
    session = session_over(draft, ahead=1.0)
    history = sized(*[100] * 8)

    async def leave() -> None:
        task = asyncio.create_task(session.aview(history))
        while not draft.under_way:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)
        task.cancel()

    def join() -> Any:
        assert wait_until(lambda: draft.under_way == 1)
        return asyncio.run(session.aview(history))

    _, view = at_once(lambda: asyncio.run(leave()), join)
    assert len(view) < 10
    assert 1 <= draft.calls <= 2


def test_a_loop_that_stands_still_is_not_waited_for() -> None:
    """Its task is neither done nor cancelled, and never will be."""
    draft = Draft(cites(2), seconds=0.05)
    session = session_over(draft, ahead=1.0)
    history = sized(*[100] * 8)
    loop = asyncio.new_event_loop()
    task = loop.create_task(session.aview(history))
    while not draft.under_way:
        loop.run_until_complete(asyncio.sleep(0))
    (view,) = at_once(lambda: session.view(history))
    assert len(view) < 10
    assert draft.calls == 2
    loop.run_until_complete(task)
    loop.close()


def test_a_loop_that_is_blocked_is_waited_for_no_longer_than_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "_PATIENCE", 0.1)
    draft = Draft(cites(2), seconds=0.05)
    session = session_of(draft, deadline=0.2)
    history = sized(*[100] * 8)
    blocked = threading.Event()

    async def block() -> Any:
        task = asyncio.create_task(session.aview(history))
        while not draft.under_way:
            await asyncio.sleep(0)
        blocked.set()
        time.sleep(1.5)
        return await task

    def wait() -> Any:
        assert blocked.wait(PATIENCE)
        started = time.perf_counter()
        view = session.view(history)
        waited = time.perf_counter() - started
        assert len(session.view(history)) < 10, "then it asks for itself"
        return view, waited

    _, (view, waited) = at_once(lambda: asyncio.run(block()), wait)
    assert list(view) == history
    assert waited < 1.0
    assert any("no sketches came within" in event.why for event in session.events)


async def test_sync_code_on_the_loop_does_not_wait_for_a_task_of_that_loop() -> None:
    draft = Draft(cites(2), seconds=0.1)
    session = session_over(draft, ahead=1.0)
    history = sized(*[100] * 8)
    task = asyncio.create_task(session.aview(history))
    while not draft.under_way:
        await asyncio.sleep(0)
    started = time.perf_counter()
    assert len(session.view(history)) < 10
    assert time.perf_counter() - started < 5
    assert len(await task) < 10


def test_an_error_of_the_callers_own_code_reaches_all_who_wait() -> None:
    def pin(span: Any) -> bool:
        if threading.current_thread().name.startswith("asyncio_"):  # where the decision is worked out
            raise ZeroDivisionError
        return False

    session = session_of(Draft(cites(2), seconds=0.05), pin=pin)
    history = sized(*[100] * 8)
    for _ in range(2):
        session.events.clear()
        assert at_once(*[lambda: session.view(history)] * 3) == [history] * 3
        assert [event.cause for event in session.events] == ["error"] * 3
        assert all("ZeroDivisionError" in event.why for event in session.events)


def counted_decisions(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets an entry for each decision from now on."""
    decided: list[object] = []
    decide = proposal.decide

    def counted(*arguments: Any, **options: Any) -> Any:
        decided.append(arguments)
        return decide(*arguments, **options)

    monkeypatch.setattr(proposal, "decide", counted)
    return decided


def test_an_event_far_above_the_budget_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = counted_decisions(monkeypatch)
    session = session_of(Draft(cites(2)), levels=True, target=0.5)
    session.view(sized(*[100] * 8))
    assert moved(session)
    assert len(decided) == 1


async def test_equal_histories_at_once_are_decided_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = counted_decisions(monkeypatch)
    session = session_over(Draft(cites(2), seconds=0.05), ahead=1.0)
    views = await asyncio.gather(*(session.aview(sized(*[100] * 8)) for _ in range(64)))
    assert all(view == views[0] for view in views)
    assert len(views[0]) < 10
    assert len(decided) == 1


def test_nothing_is_kept_of_a_store_that_nobody_uses() -> None:
    session = session_over(Draft(cites(2)), ahead=1.0)
    session.view(sized(*[100] * 8))
    store = weakref.ref(session.store)
    del session
    gc.collect()
    assert store() is None
