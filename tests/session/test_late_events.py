"""Sketches that were drawn ahead of time for an event that came late: too old to act on."""

import pytest

from focusctx.types import Usage
from helpers.session_parts import NOTHING, Draft, cites, growing, moved, session_of, sized, wait_until

STEPS = (100, 100, 100, 500, *[80] * 6)
"""Near a budget of 1000 after the fourth step: another one of 500 would be far over it."""
DRAWN, NOW = 800, 1040


def run(draft: Draft, **options):
    """Replay the steps; sketches that are asked for ahead of time come before the next call."""
    session = session_of(draft, budget=1000, ahead=0.7, **options)
    for history in growing(sized(*STEPS)):
        session.view(history)
        assert wait_until(lambda: not session.conversations[0].early_draw.in_flight)
    return session


def early_and_late(**more) -> Draft:
    """The first sketches can only let go of s_1, for s_4 was the newest; later ones need nothing."""
    return Draft(lambda prompt: cites(2, 3) if prompt.history.newest == 4 else NOTHING, **more)


def test_sketches_too_old_to_pay_are_drawn_afresh_where_that_pays():
    """gpt-4.1, s_7: the old ones save 0.25·7·100 = 175 for 0.75·860 = 645; half of all, 910 for 390, pays."""
    draft = early_and_late()
    session = run(draft, model="gpt-4.1", only_if_it_pays=True)
    assert [(event.span, event.tokens_before, event.tokens_after) for event in moved(session)] == [(7, NOW, 80)]
    assert draft.calls == 2
    assert session.savings.net > 0


def test_where_money_comes_first_no_others_are_bought_while_the_old_ones_are_not_paid_for():
    """They cost $0.0032, 1600 input tokens of gpt-4.1, and the event would bring in 910 less 390."""
    draft = early_and_late(usage=Usage(1, 5000, 750), name="openai:gpt-4.1-mini")
    session = run(draft, model="gpt-4.1", only_if_it_pays=True)
    assert draft.calls <= 1
    assert session.savings.drafts <= 0.0032


def test_a_late_event_that_keeps_the_budget_does_not_lose_more_than_it_must():
    """Claude, s_10 at 1280: the old ones save 100 for 1.15·1100 = 1265, half of all would save 640 for 736."""
    draft = early_and_late(usage=Usage(1, 10, 1), name="openai:gpt-5-nano")
    session = run(draft, model="claude-sonnet-4-5")
    (event,) = moved(session)
    assert (event.span, event.tokens_before, event.tokens_after) == (10, 1280, 80)
    assert draft.calls == 2, "and both draws are in the books"
    assert session.savings.drafts == pytest.approx(2 * (10 * 0.05 + 0.4) / 1_000_000)


def test_old_sketches_that_pay_are_acted_on():
    """They let go of s_1 to s_3: 0.25·7·300 = 525 for 0.75·(1040 − 300 − 80) = 495."""
    draft = Draft(NOTHING)
    session = run(draft, model="gpt-4.1")
    assert (moved(session)[0].span, moved(session)[0].tokens_after) == (7, NOW - 300)


def test_sketches_that_failed_are_not_asked_for_again_in_the_same_call():
    draft = Draft("I would rather not.")
    session = run(draft, model="gpt-4.1")
    failed = [event for event in session.events if event.cause == "draft"]
    assert failed[0].span == 7
    assert draft.calls == len(failed)
