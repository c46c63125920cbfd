"""Sketches come while the agent's own call runs: hidden, one at a time, stopped when overtaken, never misused."""

import asyncio
import selectors
import threading
import time
from concurrent.futures import wait

import pytest

from focusctx import runtime
from focusctx.session import conversation as conversation_module
from focusctx.session.store import MemoryStore
from focusctx.types import Usage
from helpers.session_parts import NOTHING, Draft, cites, everything, growing, moved, session_of, sized, wait_until

SAID = {"role": "user", "content": "Now do something else."}


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "focusctx"]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert wait_until(lambda: not threads())


class Virtual(asyncio.SelectorEventLoop):
    """A loop whose time passes only while all tasks wait, and then at once: a run of minutes takes no time."""

    def __init__(self) -> None:
        outer, self.now = self, 0.0

        class Selector(selectors.DefaultSelector):
            def select(self, timeout=None):
                outer.now += timeout or 0
                return super().select(0)

        super().__init__(Selector())

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor, function, *arguments):
        """Call it at once: a thread takes real time, in which hours would pass here."""
        future = self.create_future()
        future.set_result(function(*arguments))
        return future


def in_virtual_time(coroutine):
    with asyncio.Runner(loop_factory=Virtual) as runner:
        return runner.run(coroutine)


STEPS = growing(sized(*[100] * 40))


async def agent_run(session, call_seconds: float, histories=STEPS) -> float:
    """The agent's run; the seconds it waited inside `aview`."""
    loop, waited = asyncio.get_running_loop(), 0.0
    for history in histories:
        started = loop.time()
        await session.aview(history)
        waited += loop.time() - started
        await asyncio.sleep(call_seconds)
    return waited


def test_async_a_draft_of_two_seconds_is_hidden_behind_calls_of_three():
    draft = Draft(seconds=2.0)
    session = session_of(draft, budget=1000, ahead=0.8)
    waited = in_virtual_time(agent_run(session, 3.0))
    assert len(moved(session)) >= 4
    assert 1 - waited / (2.0 * draft.calls) >= 0.95
    assert draft.most_under_way == 1
    assert draft.calls <= len(moved(session)) + 1


def test_async_without_looking_ahead_every_draft_is_waited_for():
    """Show that the test above can fail."""
    draft = Draft(seconds=2.0)
    waited = in_virtual_time(agent_run(session_of(draft, budget=1000, ahead=1.0), 3.0))
    assert waited == pytest.approx(2.0 * draft.calls)
    assert draft.calls >= 3


@pytest.mark.parametrize("plan", [NOTHING, everything], ids=["little kept", "all needed"])
@pytest.mark.parametrize("size", [20, 100, 450])
def test_async_steps_of_any_size_and_views_over_budget_are_hidden_too(plan, size):
    draft = Draft(plan, seconds=2.0)
    session = session_of(draft, budget=1000, ahead=0.8)
    waited = in_virtual_time(agent_run(session, 3.0, growing(sized(*[size] * 60))))
    assert draft.calls
    assert 1 - waited / (2.0 * draft.calls) >= 0.95


def test_async_a_draft_slower_than_the_agent_is_waited_for_only_as_long_as_is_left():
    draft = Draft(seconds=8.0)
    session = session_of(draft, budget=1000, ahead=0.8)
    waited = in_virtual_time(agent_run(session, 3.0))
    assert 0 < waited <= 2.0 * draft.calls + 1e-6, "two calls of the agent passed meanwhile"


def test_threads_a_draft_is_hidden_behind_longer_calls(monkeypatch):
    """Repeat it with 0.08 s and 0.12 s on real threads, in real time."""
    waits: list[float] = []

    def timed(*arguments):
        started = time.perf_counter()
        try:
            return wait(*arguments)
        finally:
            waits.append(time.perf_counter() - started)

    monkeypatch.setattr(runtime, "wait", timed)
    draft = Draft(seconds=0.08)
    session = session_of(draft, budget=1000, ahead=0.8)
    for history in STEPS[: len(STEPS) // 2]:
        session.view(history)
        time.sleep(0.12)
    session.close()
    assert len(moved(session)) >= 2
    assert 1 - sum(waits) / (0.08 * draft.calls) >= 0.95
    assert draft.most_under_way == 1


def near(**options):
    """A session with sketches on their way: 900 tokens of 1000."""
    draft = Draft(**{"seconds": 60.0, **options})
    session = session_of(draft, budget=1000, ahead=0.8)
    session.view(sized(*[100] * 9))
    assert wait_until(lambda: draft.under_way == 1)
    return session, draft


def test_closing_the_session_stops_what_is_under_way():
    session, draft = near()
    session.close()
    assert wait_until(lambda: draft.cancelled == 1)
    session.view(sized(*[10] * 3))  # and it can still be used


def edited(history, place=3):
    return [*history[:place], {**history[place], "content": "x" * 99}, *history[place + 1 :]]


edited_late = edited(sized(*[100] * 9), 9)


def test_sketches_are_stopped_when_the_user_has_spoken():
    session, draft = near()
    session.view([*sized(*[100] * 9), SAID])
    assert wait_until(lambda: draft.cancelled == 1)
    session.close()


@pytest.mark.parametrize(
    "next_history",
    [[*sized(*[100] * 5), *edited(sized(*[100] * 9))[12:17], SAID], edited_late],
    ids=["it branched off", "a later step was edited"],
)
def test_a_branch_leaves_the_sketches_of_the_other_alone(next_history):
    """Two conversations from where they differ: the first may well go on."""
    session, draft = near()
    session.view(next_history)
    assert not wait_until(lambda: draft.cancelled > 0, 0.05)
    session.close()
    assert wait_until(lambda: draft.cancelled == draft.calls)


def test_another_conversation_leaves_them_alone():
    session, draft = near()
    session.view(sized(10, 10, name=" aside"))
    assert not wait_until(lambda: draft.cancelled > 0, 0.05)
    session.close()


def test_an_edit_in_place_stops_them_too():
    draft = Draft(seconds=60.0)
    session = session_of(draft, budget=1000, ahead=0.8)
    history = sized(*[100] * 9)
    session.view(history)
    assert wait_until(lambda: draft.under_way == 1)
    history[9]["content"] = "x" * 98
    session.view(history)
    assert wait_until(lambda: draft.cancelled == 1)
    session.close()


def test_decisions_of_another_process_stop_them():
    store = MemoryStore()
    slow, quick = Draft(seconds=60.0), Draft()
    session = session_of(slow, store, budget=1000, ahead=0.8)
    other = session_of(quick, store, budget=1000)
    history = sized(*[100] * 11)
    session.view(history[:-4])
    assert wait_until(lambda: slow.under_way == 1)
    other.view(history)
    assert moved(other)
    view = session.view(history)
    assert wait_until(lambda: slow.cancelled == 1)
    assert view == other.view(history)
    assert [event.cause for event in moved(session)] == ["followed"]
    session.close()


def test_sketches_that_do_not_fit_any_more_are_not_used():
    """The draft would drop all; asked again after the user spoke, it wants s_2."""
    draft = Draft(lambda prompt: cites(2) if len(prompt.history.user_turns) > 1 else NOTHING)
    session = session_of(draft, budget=1000, ahead=0.8)
    history = sized(*[100] * 9)
    session.view(history)
    assert wait_until(lambda: draft.calls == 1 and not draft.under_way)
    view = session.view([*history, SAID, *sized(*[200] * 10)[-2:]])
    assert draft.calls == 2
    assert moved(session)[0].result.kept == (2, 10)
    assert history[4] in view


def test_steps_newer_than_the_sketches_stay():
    draft = Draft()
    session = session_of(draft, budget=1000, ahead=0.8)
    history = sized(*[100] * 11)
    session.view(history[:-4])
    assert wait_until(lambda: draft.calls == 1 and not draft.under_way)
    session.view(history)
    (event,) = moved(session)
    assert event.result.kept == (9, 10, 11), "and the one that was the newest: the draft was told that it stays"
    pinned = {decision.index: decision.pinned for decision in event.result.decisions}
    assert (pinned[8], pinned[9], pinned[10], pinned[11]) == (
        None,
        "newer than the sketches",
        "newer than the sketches",
        "newest span",
    )
    assert draft.prompts[0].history.newest == 9
    session.close()


def test_copies_of_the_messages_find_the_sketches_asked_for_before():
    """A proxy gets every request as new JSON."""
    draft = Draft()
    session = session_of(draft, budget=1000, ahead=0.8, growth=10.0)
    session.view(sized(*[100] * 9))
    assert wait_until(lambda: draft.calls == 1 and not draft.under_way)
    session.view(sized(*[100] * 11))
    assert moved(session)
    assert draft.calls == 1


def test_each_conversation_has_its_own_sketches_under_way():
    session, draft = near()
    session.view(sized(*[100] * 9, name=" aside"))
    assert wait_until(lambda: draft.under_way == 2)
    session.view(sized(*[100] * 9))
    assert not wait_until(lambda: draft.calls > 2, 0.05), "at most one draw of each"
    session.close()
    assert wait_until(lambda: draft.cancelled == 2)


def test_a_forgotten_conversation_takes_its_sketches_with_it(monkeypatch):
    monkeypatch.setattr(conversation_module, "MOST", 8)
    session, draft = near()
    for number in range(8):
        session.view(sized(1, name=str(number)))
    assert wait_until(lambda: draft.cancelled == 1)


def test_at_most_one_draw_ahead_of_each_event():
    """Someone who speaks at every step must not have sketches drawn at every step."""
    draft = Draft()
    session = session_of(draft, budget=2000, ahead=0.1)
    history = sized()
    for number in range(1, 17):
        history = [*history, *sized(*[100] * number)[-2:], {**SAID, "content": f"Go on {number}."}]
        session.view(history)
        assert wait_until(lambda: not session.conversations[0].early_draw.in_flight)
    assert moved(session) == []
    assert draft.calls == 1


def test_looking_ahead_can_be_switched_off():
    draft = Draft()
    session_of(draft, budget=1000, ahead=1.0).view(sized(*[100] * 10))
    assert not wait_until(lambda: draft.calls > 0, 0.05)


def test_no_money_is_spent_ahead_on_what_will_not_pay():
    draft = Draft()
    session = session_of(draft, budget=1000, ahead=0.8, model="claude-sonnet-4-5")
    for history in growing(sized(*[100] * 9)):
        session.view(history)
    assert not wait_until(lambda: draft.calls > 0, 0.05)


def test_a_draft_that_failed_ahead_of_time_is_a_failure_and_no_wait():
    draft = Draft("nonsense")
    session = session_of(draft, budget=1000, ahead=0.8)
    session.view(sized(*[100] * 9))
    assert wait_until(lambda: draft.calls == 1 and not draft.under_way)
    history = sized(*[100] * 11)
    assert session.view(history) == history
    assert [event.cause for event in session.events] == ["draft"]
    session.close()


async def test_no_task_is_left_when_a_session_ends():
    draft = Draft(seconds=60.0)
    session = session_of(draft, budget=1000, ahead=0.8)
    await session.aview(sized(*[100] * 9))
    while not draft.under_way:
        await asyncio.sleep(0)
    session.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert draft.cancelled == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_agent_that_is_stopped_while_it_waits_stops_the_draft():
    draft = Draft(seconds=60.0)
    session = session_of(draft, budget=1000)
    stopped = asyncio.create_task(session.aview(sized(*[100] * 11)))
    while not draft.under_way:
        await asyncio.sleep(0)
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped
    for _ in range(3):
        await asyncio.sleep(0)
    assert draft.cancelled == 1
    short = sized(*[10] * 3)
    assert await asyncio.wait_for(session.aview(short), 1) == short, "the session is free again"


def test_a_program_that_is_interrupted_while_it_waits_stops_the_draft(monkeypatch):
    draft = Draft(seconds=60.0)
    session = session_of(draft, budget=1000)

    def interrupted(*_):
        wait_until(lambda: draft.under_way == 1)
        raise KeyboardInterrupt

    monkeypatch.setattr(runtime, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.view(sized(*[100] * 11))
    assert wait_until(lambda: draft.cancelled == 1)


def test_sketches_begun_in_one_loop_do_not_break_the_next():
    """A script calls asyncio.run for every step: the first loop takes its tasks with it."""
    draft = Draft(seconds=0.01, usage=Usage(1, 10, 10))
    session = session_of(draft, budget=1000, ahead=0.8)
    views = [asyncio.run(session.aview(history)) for history in growing(sized(*[100] * 24))]
    assert moved(session)
    assert len(views[-1]) < 20


def test_sketches_begun_by_async_code_serve_sync_code():
    draft = Draft()
    session = session_of(draft, budget=1000, ahead=0.8, growth=10.0)

    async def start() -> None:
        view = await session.aview(sized(*[100] * 9))
        while view.conversation.early_draw.in_flight:
            await asyncio.sleep(0.01)

    asyncio.run(start())
    session.view(sized(*[100] * 11))
    assert moved(session)
    assert draft.calls == 1


async def test_sketches_begun_by_sync_code_serve_async_code():
    session, draft = near(seconds=0.2)
    await session.aview(sized(*[100] * 11))
    assert draft.calls == 1
    assert moved(session)
    session.close()
