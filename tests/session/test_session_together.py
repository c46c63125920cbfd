"""Sessions beside others: on one conversation, in other tenants, in threads and loops."""

import asyncio
import threading

import pytest

from focusctx import Focus
from focusctx.session.store import MemoryStore, Totals
from focusctx.session.stores import store_from
from helpers.session_parts import (
    NOTHING,
    STEPS,
    WHOLE_STEPS,
    Draft,
    calls_in,
    cites,
    crosses,
    everything,
    growing,
    moved,
    sent,
    session_of,
    sized,
)


@pytest.mark.parametrize("url", ["memory", "sqlite"])
def test_two_sessions_on_one_conversation(url, tmp_path):
    store = store_from(f"sqlite:///{tmp_path / 'focus.db'}" if url == "sqlite" else url)
    other_store = store_from(f"sqlite:///{tmp_path / 'focus.db'}") if url == "sqlite" else store
    one, two = session_of(Draft(cites(2)), store), session_of(Draft(cites(3)), other_store)
    for step, history in enumerate(STEPS):
        first, second = (one, two) if step % 3 else (two, one)
        first.view(history)
        view = second.view(history)
        assert first.view(history) == view
    assert moved(one)
    assert moved(two)
    assert {event.cause for event in [*moved(one), *moved(two)]} == {"compressed", "followed"}
    one.close()
    two.close()


class Overtaken(MemoryStore):
    """Just before the first commit arrives, another session commits."""

    def __init__(self) -> None:
        super().__init__()
        self.other = None

    def commit(self, tenant, root, event, archived):
        if self.other:
            other, self.other = self.other, None
            other()
        return super().commit(tenant, root, event, archived)


def test_of_two_that_decide_at_once_the_first_stands():
    store = Overtaken()
    one, two = session_of(Draft(cites(2)), store), session_of(Draft(cites(3)), store)
    history = sized(*[100] * 5)
    store.other = lambda: two.view(history)
    view = one.view(history)
    assert view == two.view(history)
    assert calls_in(view) == {"call_3", "call_5"}
    (event,) = one.events
    assert (event.happened, event.cause, event.result.kept) == (True, "followed", (2, 5))


def test_of_two_that_decide_at_once_the_first_may_have_dropped_nothing():
    store = Overtaken()
    one, two = session_of(Draft(cites(2)), store), session_of(Draft(everything), store)
    history = sized(*[100] * 5)
    store.other = lambda: two.view(history)
    assert one.view(history) == history
    assert [(event.happened, event.cause) for event in one.events] == [(False, "followed")]


def test_tenants_do_not_see_each_other():
    store = MemoryStore()
    ann, bob = (session_of(Draft(plan), store, tenant=name) for name, plan in (("ann", NOTHING), ("bob", everything)))
    history = sized(*[100] * 8)
    assert len(ann.view(history)) == 4
    assert bob.view(history) == history
    assert bob.recall("s_1") == []
    assert store.totals("bob") == Totals()
    assert list(moved(bob)) == []


# ------------------------------------------------------------------------------------------------ threads and loops


async def test_many_agents_at_once_in_one_loop():
    focus = Focus(Draft(cites(2), seconds=0.005), budget=300, tokens=crosses, **WHOLE_STEPS)
    store = MemoryStore()

    async def agent(number: int) -> list[dict]:
        session = focus.session(store)
        view: list[dict] = []
        for history in growing(sized(*[100] * 8, name=f" {number}")):
            view = await session.aview(history)
            await asyncio.sleep(0)
        session.close()
        return view

    views = await asyncio.gather(*map(agent, range(10)))
    for number, view in enumerate(views):
        assert view[1]["content"] == f"Do it {number}. "
        assert len(view) < 10


async def test_sub_agents_may_share_a_session():
    draft = Draft(cites(2), seconds=0.001)
    session = session_of(draft, ahead=0.8)

    async def agent(number: int) -> None:
        before: list[dict] = []
        for history in growing(sized(*[100] * 10, name=f" {number}")):
            before = await session.aview(history)
        assert before[1]["content"] == f"Do it {number}. "
        assert len(before) < 12

    await asyncio.gather(*map(agent, range(4)))
    session.close()
    assert len({event.conversation for event in moved(session)}) == 4


async def test_the_sync_form_works_inside_a_running_loop():
    session = session_of(Draft(cites(2), seconds=0.01), ahead=0.8)
    views = sent(session, STEPS)
    assert len(views[-1]) < 10
    mixed = session_of(Draft(cites(2), seconds=0.01), ahead=0.8)
    for step, history in enumerate(STEPS):
        view = mixed.view(history) if step % 2 else await mixed.aview(history)
    assert len(view) < 10
    for each in (session, mixed):
        each.close()
    await asyncio.sleep(0.01)


async def test_both_forms_give_the_same_views():
    one, two = session_of(Draft(cites(2))), session_of(Draft(cites(2)))
    for history in STEPS:
        assert one.view(history) == await two.aview(history)


def test_threads_may_share_a_session():
    session = session_of(Draft(cites(2)))
    failures: list[BaseException] = []

    def agent(number: int) -> None:
        try:
            for history in growing(sized(*[100] * 10, name=f" {number}")):
                assert session.view(history)[1] is history[1]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=agent, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
