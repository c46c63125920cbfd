"""Sessions end to end: stable for any agent, open when anything fails, and alone with their own tenant."""

import asyncio
import copy
import json
import random
import re
import threading
from pathlib import Path

import pytest

from agents import (
    NOTHING,
    BreakableStore,
    Draft,
    cites,
    everything,
    growing,
    moved,
    sent,
    session_of,
    sized,
    wait_until,
)
from focusctx import Focus, MessageError
from focusctx.errors import DraftUnavailable
from focusctx.session.store import Totals
from focusctx.session.stores import store_from
from focusctx.session.stores.memory import MemoryStore
from histories import run

METHODS = ("version", "events", "commit", "archived", "restored", "add")
STEPS = growing(sized(*[100] * 16))


def calls_in(view: list[dict]) -> set[str]:
    return {message["tool_call_id"] for message in view if message["role"] == "tool"}


def check_nothing_is_lost(session, store: MemoryStore, view: list[dict], history: list[dict]) -> None:
    """Every step that is not in the view is in the store, word for word."""
    keys = session._conversations[0].keys
    kept = MemoryStore.archived(store, session.tenant, keys)
    stored = {
        message["tool_call_id"]: message for span in kept for message in span.messages if "tool_call_id" in message
    }
    for message in history:
        if message.get("tool_call_id") in calls_in(history) - calls_in(view):
            assert stored[message["tool_call_id"]] == message


# -------------------------------------------------------------------------------------------------------- a good day


def test_the_lines_of_the_readme():
    session = Focus(Draft(cites(2)), budget=300, tokens=len).session()
    for history in growing(run(12)):
        messages = session.view(history)
    assert len(messages) < len(run(12))
    assert session.recall("s_1")[0].messages == tuple(run(12)[2:4])
    assert [event.happened for event in session.events]
    assert session.savings.tokens_saved > 0
    session.close()


def test_below_the_budget_the_view_is_the_history():
    session = session_of(Draft())
    history = sized(100, 100)
    view = session.view(history)
    assert view == history
    assert all(mine is theirs for mine, theirs in zip(view, history, strict=True))
    view.clear()
    assert session.view(history) == history, "the list is the caller's own"
    assert list(session.events) == []


def test_an_event_carries_its_evidence():
    session = session_of(Draft(cites(2)), budget=350, dropped="skeleton", tokens=len)
    view = session.view(sized(*[100] * 6))
    (event,) = session.events
    assert (event.happened, event.cause, event.span) == (True, "compressed", 6)
    assert event.tokens_before == event.result.tokens_before > event.tokens_after == event.result.tokens_after > 0
    assert event.result.messages == view
    assert event.result.kept == (2, 6)
    assert "s_2" in event.result.explain()


def test_numbers_stay_as_they_were_and_dropped_spans_are_not_asked_about_again():
    draft = Draft(lambda prompt: cites(2))
    session = session_of(draft)
    sent(session, STEPS)
    assert len(moved(session)) > 1
    asked = [[span.index for span in prompt.history.spans] for prompt in draft.prompts[:2]]
    assert asked == [[1, 2, 3, 4], [2, 4, 5, 6]]
    assert session.recall("s_1")[0].index == 1


def test_the_offline_draft_reads_histories_with_gaps():
    history = run(2)[:2]
    for number in range(1, 40):
        history += run(number)[-2:]
        history[-1]["content"] = f"Error: no such file /tmp/f{number}" if number % 3 else f"found id_{number}" * 20
    session = Focus("offline", budget=300).session(ahead=1.0)
    sent(session, growing(history))
    assert len(moved(session)) > 1
    assert "draft" not in [event.cause for event in session.events]


@pytest.mark.parametrize("wrong", ["a string", {"messages": []}, [1], [{"role": 1}]])
def test_what_is_no_message_list_is_said(wrong):
    with pytest.raises(MessageError):
        session_of(Draft()).view(wrong)


def test_nothing_and_next_to_nothing():
    session = session_of(Draft(), budget=0)
    assert session.view([]) == []
    assert session.view(sized()) == sized()
    assert session.view(sized(0)) == sized(0)


# ------------------------------------------------------------------------------------- agents that do things their way


def test_messages_made_anew_at_every_step_give_the_same_views():
    store = BreakableStore()
    session, proxied = session_of(Draft(cites(2))), session_of(Draft(cites(2)), store)
    for history in STEPS:
        assert proxied.view(json.loads(json.dumps(history))) == session.view(history)
    assert len(moved(proxied)) == len(moved(session))
    assert store.asked.count("events") <= len(STEPS), "known decisions are not asked for again and again"
    assert len(proxied._conversations) == 1


def test_what_a_client_writes_into_a_view_does_not_come_back():
    """LiteLLM puts cache marks into the messages it is given; with five of them Anthropic refuses the request."""
    session = session_of(Draft(cites(2)))
    for history in STEPS:
        view = session.view([dict(message) for message in history])
        assert not any("cache_control" in message for message in view)
        view[-1]["cache_control"] = {"type": "ephemeral"}


def test_what_a_client_writes_into_an_older_message_does_not_come_back_either():
    session = session_of(Draft())
    for step, history in enumerate(STEPS[:4]):
        view = session.view([dict(message) for message in history])
        assert "cache_control" not in view[0]
        if step == 1:
            view[0]["cache_control"] = {"type": "ephemeral"}


def marked(history: list[dict]) -> list[dict]:
    """The agent's own cache mark, on its last message."""
    last = {"type": "text", "text": history[-1]["content"], "cache_control": {"type": "ephemeral"}}
    return [*history[:-1], {**history[-1], "content": [last]}]


def test_marks_that_move_are_the_agents_own_business():
    session, plain = session_of(Draft(cites(2))), session_of(Draft(cites(2)))
    for history in STEPS:
        view = session.view(marked(history))
        assert view == marked(plain.view(history))
    assert [event.span for event in moved(session)] == [event.span for event in moved(plain)]


def test_marks_that_move_in_place():
    session, plain = session_of(Draft(cites(2))), session_of(Draft(cites(2)))
    history: list[dict] = []
    for length in map(len, STEPS):
        for message in history:
            message.pop("cache_control", None)
        history += copy.deepcopy(STEPS[-1][len(history) : length])
        history[-1]["cache_control"] = {"type": "ephemeral"}
        view = session.view(history)
        assert [message for message in view if "cache_control" in message] == [history[-1]]
        assert len(view) == len(plain.view(STEPS[-1][:length]))


def test_two_conversations_take_turns_and_neither_moves():
    session = session_of(Draft(lambda prompt: cites(2)))
    runs = [growing(sized(*[90] * 16)), growing(sized(*[110] * 16, name=" aside"))]
    before: list[list[dict]] = [[], []]
    for step in range(len(runs[0])):
        for which, histories in enumerate(runs):
            events = len(moved(session))
            view = session.view(histories[step])
            if len(moved(session)) == events:
                assert view[: len(before[which])] == before[which]
            before[which] = view
    alone = [session_of(Draft(lambda prompt: cites(2))) for _ in runs]
    assert before == [sent(session, histories)[-1] for session, histories in zip(alone, runs, strict=True)]


def test_an_edited_past_is_decided_anew():
    session = session_of(Draft(lambda prompt: cites(3)))
    history = sized(*[100] * 8)
    assert "call_2" not in calls_in(session.view(history))
    edited = [*history[:5], {**history[5], "content": "x" * 101}, *history[6:]]
    session.view(edited)
    assert {event.conversation for event in moved(session)} == {session._conversations[0].root}
    root_changed = [*history[:3], {**history[3], "content": "x" * 101}, *history[4:]]
    other = session_of(Draft(), session.store, budget=10**6)
    assert other.view(root_changed) == root_changed


def test_who_goes_back_to_before_an_event_has_all_steps_again():
    """What was dropped at step 8 was dropped for what came then: from step 3 on it may come otherwise."""
    session = session_of(Draft())
    history = sized(*[100] * 8)
    assert calls_in(session.view(history)) == {"call_8"}
    assert session.view(history[:8]) == history[:8]
    on = [*history, {"role": "user", "content": "No, look there."}, *sized(*[50] * 9)[-2:]]
    assert calls_in(session.view(on)) == {"call_8", "call_9"}, "what goes on from it keeps what was decided"


def test_a_fork_keeps_the_thinking_it_goes_on_from():
    """Anthropic wants the thinking that opened a turn: a step dropped elsewhere stays where another rests on it."""

    def step(number: int, *thinking: dict) -> list[dict]:
        use = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "x" * 100}
        return [{"role": "assistant", "content": [*thinking, use]}, {"role": "user", "content": [result]}]

    thought = {"type": "thinking", "thinking": "hm", "signature": "EqQBCg=="}
    start = [{"role": "user", "content": "go"}, *step(1, thought)]
    session = session_of(Draft())
    words = {"role": "user", "content": "And now the rest."}
    session.view([*start, *step(2), words, *step(3, thought), *step(4, thought), *step(5, thought)])
    assert 1 in session._conversations[0].dropped
    fork = [*start, *step(9)]
    assert session.view(fork) == fork


def test_a_pin_rule_holds_against_decisions_made_without_it():
    store = MemoryStore()
    history = sized(*[100] * 6)
    session_of(Draft(), store).view(history)
    careful = session_of(Draft(), store, pin=lambda span: span.index == 2)
    assert calls_in(careful.view(history)) == {"call_2", "call_6"}


def test_a_decision_that_changes_nothing_here_is_no_event():
    """Where all longer steps are pinned, the skeletons of very short ones look as the steps did."""
    store = MemoryStore()
    history = sized(3, 3, 200, 200, 3)
    session_of(Draft(), store, dropped="skeleton").view(history)
    careful = session_of(Draft(), store, budget=1000, pin=lambda span: span.tokens > 100)
    assert careful.view(history) == history
    assert careful._conversations[0].dropped == {1, 2}
    assert list(careful.events) == []
    assert careful.savings.events == 0


def test_nothing_is_dropped_where_the_note_would_be_longer():
    draft = Draft(lambda prompt: cites(*range(2, 9)))
    session = session_of(draft, budget=200, tokens=len, recall=True)
    history = run(9)
    assert session.view(history) == history
    assert session.events[-1].cause == "needed"
    assert "no shorter" in session.events[-1].why
    assert len(session_of(draft, budget=200, tokens=len).view(history)) == len(history) - 2


def test_a_decision_does_not_reach_back_to_a_shorter_history():
    store = MemoryStore()
    first = session_of(Draft(), store)
    views = sent(first, STEPS)
    assert len(views[-1]) < len(STEPS[-1])
    again = session_of(Draft(), store)
    assert sent(again, STEPS) == views, "the same task, begun again: nothing goes before its time"
    fork = [*STEPS[3], {"role": "user", "content": "Now something else."}]
    assert session_of(Draft(everything), store).view(fork) == fork


def test_a_conversation_played_again_meets_the_decisions_on_its_later_steps():
    store = MemoryStore()
    first = session_of(Draft(), store)
    last = sent(first, STEPS)[-1]
    again = session_of(Draft(everything), store)
    for history in STEPS:
        view = again.view(history)
        fresh = session_of(Draft(everything), store)
        assert fresh.view(history) == view
    assert view == last


# ---------------------------------------------------------------------------------------------------- others at work


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
    focus = Focus(Draft(cites(2), seconds=0.005), budget=300, tokens=lambda text: text.count("x"))
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


# --------------------------------------------------------------------------------------------------------- bad days


@pytest.mark.parametrize("method", METHODS)
def test_a_store_that_fails_in_one_method_never_stops_the_agent(method):
    store = BreakableStore(method)
    session = session_of(Draft(cites(2)), store)
    for history in STEPS:
        view = session.view(history)
        check_nothing_is_lost(session, store, view, history)
        if method in ("version", "commit"):
            assert view == history
    assert (method in ("version", "commit")) == (not moved(session))
    store.broken.clear()
    history = sized(*[100] * 17)
    view = session.view(history)
    assert moved(session)
    check_nothing_is_lost(session, store, view, history)


@pytest.mark.parametrize("seed", range(8))
def test_a_store_that_fails_now_and_then(seed):
    rng = random.Random(seed)
    store = BreakableStore()
    session = session_of(Draft(cites(2)), store, recall=True)
    before: list[dict] = []
    for history in growing(sized(*[100] * 30)):
        store.broken = {method for method in METHODS if rng.random() < 0.3}
        events = len(moved(session))
        view = session.view(history)
        check_nothing_is_lost(session, store, view, history)
        if len(moved(session)) == events:
            assert view[: len(before)] == before
        assert isinstance(session.handle_recall("s_1"), str)
        before = view
    store.broken.clear()
    assert session_of(Draft(cites(2)), store, recall=True).view(history) == session.view(history)
    assert moved(session)


def test_nobody_pays_for_sketches_while_the_store_is_down():
    store = BreakableStore("version", "commit")
    draft = Draft()
    session = session_of(draft, store, ahead=0.5)
    sent(session, STEPS)
    assert draft.calls <= 1  # the first may be asked for while a store is not needed yet
    assert session.events[-1].cause == "store"
    session.close()


def test_sketches_that_could_not_be_stored_are_used_when_they_can():
    store = BreakableStore("commit")
    draft = Draft(cites(2))
    session = session_of(draft, store)
    sent(session, STEPS)
    assert draft.calls == 1
    assert {event.cause for event in session.events} == {"store"}
    store.broken.clear()
    view = session.view(sized(*[100] * 17))
    assert draft.calls == 1
    # drawn at s_4: what came since stays
    assert calls_in(view) == {f"call_{number}" for number in (2, *range(4, 18))}


def test_what_cannot_be_stored_is_not_dropped():
    history = sized(*[100] * 8)
    history[3]["extra"] = object()
    session = session_of(Draft())
    assert session.view(history) == history
    assert session.events[-1].cause == "store"


def test_a_refusal_that_could_not_be_stored_is_still_remembered():
    draft = Draft(everything)
    session = session_of(draft, BreakableStore("commit"), growth=1.0)
    sent(session, growing(sized(*[100] * 6)))
    assert draft.calls == 1


@pytest.mark.parametrize(
    "plan",
    [DraftUnavailable("it is down"), RuntimeError("a bug"), "no plan at all", ""],
    ids=["down", "bug", "nonsense", "silent"],
)
def test_a_draft_that_fails_leaves_the_view_as_it_is(plan):
    def reply(prompt):
        if isinstance(plan, Exception):
            raise plan
        return plan

    draft = Draft(reply)
    session = session_of(draft)
    for history in STEPS:
        assert session.view(history) == history
    assert draft.calls == 3, "then the breaker leaves it alone"
    assert [event.cause for event in session.events] == ["draft"] * 4
    assert session.events[-1].steps == len(STEPS) - 4 - 3
    assert "left alone" in session.events[-1].why


def test_a_draft_that_hangs_is_waited_for_no_longer_than_the_deadline():
    draft = Draft(seconds=60.0)
    session = session_of(draft, deadline=0.05)
    for history in growing(sized(*[100] * 6)):
        assert session.view(history) == history
    assert "within 0.05 s" in session.events[0].why
    assert wait_until(lambda: draft.under_way == 0)


def test_after_the_pause_the_draft_is_asked_again():
    draft = Draft("nonsense")
    focus = Focus(draft, budget=300, tokens=lambda text: text.count("x"), breaker_failures=1, breaker_pause=30.0)
    now = [0.0]
    focus._breaker._clock = lambda: now[0]
    session = focus.session(ahead=1.0)
    sent(session, growing(sized(*[100] * 6)))
    assert draft.calls == 1
    now[0] = 31.0
    draft._plan = NOTHING
    session.view(sized(*[100] * 7))
    assert draft.calls == 2
    assert moved(session)


def test_sessions_of_one_focus_share_its_breaker():
    focus = Focus(Draft("nonsense"), budget=300, tokens=lambda text: text.count("x"), breaker_failures=1)
    focus.session(ahead=1.0).view(sized(*[100] * 5))
    other = focus.session(ahead=1.0)
    other.view(sized(*[100] * 5, name=" aside"))
    assert focus.draft.calls == 1
    assert "left alone" in other.events[-1].why


# ---------------------------------------------------------------------------------------------------------- the page

PAGE = Path(__file__).parents[2] / "docs" / "sessions.md"


class StandIn:
    """The reader's own agent: a model that calls a tool at every step, and the tool."""

    def __init__(self) -> None:
        self.calls = 0

    def model(self, messages: list[dict]) -> dict:
        assert messages
        self.calls += 1
        call = {"id": f"call_{self.calls}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        return {"role": "assistant", "content": f"Step {self.calls}.", "tool_calls": [call]}

    def tools(self, reply: dict) -> list[dict]:
        text = f"file_{self.calls}.py has {self.calls} lines. " * 20
        return [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in reply["tool_calls"]]


def test_the_code_on_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agent = StandIn()
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 4
    names: dict[str, object] = {"call_model": agent.model, "run_tools": agent.tools}
    for number, block in enumerate(blocks, 1):
        source = compile(block, f"block {number} of sessions.md", "exec", flags=0)
        exec(source, names)
    assert moved(names["session"]), "the page's session compresses"
