"""A session asks its store at each step for no more than it needs, and never for too little."""

from helpers.histories import Messages
from helpers.session_parts import BreakableStore, Draft, cites, growing, moved, session_of, sized

STEPS = growing(sized(*[100] * 12))


def asked(store: BreakableStore, question: str) -> int:
    number = store.asked.count(question)
    store.asked.clear()
    return number


def test_who_made_all_decisions_asks_only_whether_there_are_others() -> None:
    store = BreakableStore()
    session = session_of(Draft(cites(2)), store)
    for history in STEPS:
        session.view(history)
    assert len(moved(session)) > 1
    assert "version" in store.asked
    assert asked(store, "events") == 0
    session.view(STEPS[4])
    assert asked(store, "events") == 1, "for what goes another way, or begins anew, they have to be looked for"


def test_what_another_one_decides_is_asked_for_from_then_on() -> None:
    store = BreakableStore()
    one, two = session_of(Draft(cites(2)), store), session_of(Draft(cites(2)), store)
    for history in STEPS:
        assert one.view(history) == two.view(history)
        assert one.conversations[0].decided == two.conversations[0].decided
    assert moved(one)
    assert [event.cause for event in moved(two)] == ["followed"] * len(moved(one))
    store.asked.clear()
    two.view(STEPS[-1])
    assert asked(store, "events") == 0, "nothing is new"


def test_decisions_further_on_are_found_when_the_history_gets_there() -> None:
    """Another process is ahead: its event lies at a step that this one has not come to, and the version says nothing
    new when it does."""
    store = BreakableStore()
    behind, ahead = session_of(Draft(), store, budget=10**6), session_of(Draft(cites(2)), store)
    behind.view(STEPS[2])
    views = [ahead.view(history) for history in STEPS]
    assert len(moved(ahead)) > 1
    later = [behind.view(history) for history in STEPS[3:]]
    assert later[-1] == views[-1]
    assert all(event.cause == "followed" for event in moved(behind))


def test_a_step_that_was_restored_is_back_whoever_asked_for_it() -> None:
    store = BreakableStore()
    one, two = session_of(Draft(cites(2)), store), session_of(Draft(cites(2)), store)
    for history in STEPS[:8]:
        view: Messages = list(one.view(history))
    assert STEPS[7][2] not in view
    two.view(STEPS[7])
    assert two.restore(1)
    assert STEPS[7][2] in one.view(STEPS[7])


def test_an_event_that_could_not_be_stored_is_not_taken_for_one_that_was() -> None:
    """The sketches find every step needed; only this object remembers that they were asked for."""
    store = BreakableStore("commit")
    session = session_of(Draft(lambda prompt: cites(*(span.index for span in prompt.history.spans))), store)
    for history in STEPS[:6]:
        session.view(history)
    assert session.conversations[0].last_event is not None
    assert session.conversations[0].version == 0
    store.broken.clear()
    other = session_of(Draft(cites(2)), store, growth=0.0)
    other.view(STEPS[8])
    assert moved(other)
    session.view(STEPS[8])
    assert [event.cause for event in moved(session)] == ["followed"]
