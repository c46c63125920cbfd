"""Sessions end to end on a good day, and at the edges."""

import pytest

from focusctx import Focus, MessageError
from helpers.histories import run
from helpers.session_parts import (
    STEPS,
    Draft,
    cites,
    growing,
    moved,
    sent,
    session_of,
    sized,
)


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
    session = session_of(Draft(cites(2)), budget=350, tokens=len)
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
