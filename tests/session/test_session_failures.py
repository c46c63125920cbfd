"""Sessions on bad days: a store or a draft that fails never stops the agent, and nothing is lost."""

import random
import time

import pytest

from focusctx import ConfigError, Focus, MessageError
from focusctx.errors import DraftUnavailable
from focusctx.pipeline.split import Reader
from focusctx.session import conversation, proposal, session
from focusctx.session.events import Economics, Ledger
from focusctx.session.store import MemoryStore
from helpers.session_parts import (
    NOTHING,
    STEPS,
    BreakableStore,
    Draft,
    calls_in,
    cites,
    everything,
    growing,
    moved,
    sent,
    session_of,
    sized,
    wait_until,
)

METHODS = ("version", "events", "commit", "archived", "restored", "add")


def check_nothing_is_lost(session, store: MemoryStore, view: list[dict], history: list[dict]) -> None:
    """Every step that is not in the view is in the store, word for word."""
    keys = session.conversations[0].keys
    kept = MemoryStore.archived(store, session.tenant, keys)
    stored = {
        message["tool_call_id"]: message for span in kept for message in span.messages if "tool_call_id" in message
    }
    for message in history:
        if message.get("tool_call_id") in calls_in(history) - calls_in(view):
            assert stored[message["tool_call_id"]] == message


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
    said = ["nonsense"]
    draft = Draft(lambda _: said[0])
    focus = Focus(draft, budget=300, tokens=lambda text: text.count("x"), breaker_failures=1, breaker_pause=1.0)
    session = focus.session(ahead=1.0)
    sent(session, growing(sized(*[100] * 6)))
    assert draft.calls == 1
    time.sleep(1.0)
    said[0] = NOTHING
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


FAULTS = [
    (conversation, "_opening"),
    (Reader, "extend"),
    (Reader, "history"),
    (Economics, "judge"),
    (session, "objection"),
    (session, "pinned_spans"),
    (proposal, "decide"),
    (proposal, "rebuild"),
    (conversation.Conversation, "learn"),
    (conversation.Conversation, "apply"),
    (conversation.Conversation, "view"),
    (MemoryStore, "version"),
    (MemoryStore, "commit"),
    (Ledger, "call"),
]


@pytest.mark.parametrize(("where", "name"), FAULTS, ids=[name for _, name in FAULTS])
@pytest.mark.parametrize("ahead", [1.0, 0.5])
async def test_a_fault_anywhere_never_stops_the_agent(monkeypatch, caplog, where, name, ahead):
    """The call in which something breaks sends the history as it is, and the next ones go on from the store."""

    def fault(*_, **__):
        raise ZeroDivisionError("a fault")

    store = MemoryStore()
    broken = session_of(Draft(cites(2)), store, ahead=ahead)
    for history in STEPS[:8]:
        broken.view(history)
    broken.close()
    broken = session_of(Draft(cites(2)), store, ahead=ahead)  # nothing made ahead of time is at hand
    with monkeypatch.context() as patched:
        patched.setattr(where, name, fault)
        for history in STEPS[8:11]:
            for view in (broken.view(history), await broken.aview(history)):
                assert isinstance(view, conversation.View)
                assert view == history
                assert view.conversation.recall("s_1") == []
                assert broken.events[-1].cause == "error"
                assert broken.events[-1].why == "unexpected ZeroDivisionError: a fault"
    assert caplog.text.count("history passed on unchanged: unexpected ZeroDivisionError: a fault") == 6
    assert broken.view(STEPS[-1]) == session_of(Draft(cites(2)), store).view(STEPS[-1])
    broken.close()


def test_after_a_fault_in_the_comparison_with_earlier_messages_all_are_read_again(monkeypatch):
    store = MemoryStore()
    broken = session_of(Draft(cites(2)), store)
    broken.view(STEPS[7])
    with monkeypatch.context() as patched:
        patched.setattr(Reader, "continues", lambda *_: 1 / 0)
        assert broken.view(STEPS[8]) == STEPS[8]
    assert broken.conversations == []
    assert broken.view(STEPS[9]) == session_of(Draft(cites(2)), store).view(STEPS[9])


@pytest.mark.parametrize("raising", ["pin", "tokens"])
async def test_a_setting_that_raises_never_stops_the_agent(raising):
    def fault(argument):
        raise ZeroDivisionError("in a rule")

    failing = session_of(Draft(cites(2)), **{raising: fault})
    for history in STEPS:
        assert failing.view(history) == await failing.aview(history) == history
    assert f"the function given as {raising} (fault) raised ZeroDivisionError" in failing.events[-1].why


async def test_wrong_use_is_an_error():
    wrong = session_of(Draft(cites(2)))
    with pytest.raises(MessageError, match="expected a list of messages"):
        wrong.view("hello")
    with pytest.raises(MessageError, match="message 1"):
        await wrong.aview([STEPS[0][0], 5])
    with pytest.raises(ConfigError, match="format"):
        wrong.view(STEPS[0], format="none")
    assert list(wrong.events) == []
