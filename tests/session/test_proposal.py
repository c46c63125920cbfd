"""A proposal is computed when its sketches arrive, and still holds when it is applied later."""

import copy
import pickle
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage

from focusctx import ConfigError
from focusctx.invariants import violations
from focusctx.session import proposal as proposals
from focusctx.session.session import Session
from helpers.session_parts import Draft, cites, moved, session_of, sized, wait_until

NEAR, OVER = 9, 11
"""Steps after which a history is near a budget of a thousand, and over it."""
SIZES = (*[100] * NEAR, 60, 60)


def waiting(**options: Any) -> Session:
    """A session near its budget whose sketches have come."""
    draft = Draft(options.pop("plan", cites(2)))
    session: Session = session_of(draft, budget=1000, ahead=0.8, **options)
    session.view(HISTORY[: -2 * (OVER - NEAR)])
    assert wait_until(lambda: session.conversations[0].early_draw.has_come)
    return session


HISTORY = sized(*SIZES)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages the snapshots had about which something was proposed."""
    seen: list[int] = []
    propose = proposals.propose

    def counted(snapshot: Any, drafted: Any) -> Any:
        seen.append(snapshot.place.messages)
        return propose(snapshot, drafted)

    monkeypatch.setattr(proposals, "propose", counted)
    return seen


def test_the_call_that_acts_on_it_works_nothing_out_again(made: list[int]) -> None:
    session = waiting()
    view = session.view(HISTORY)
    assert made == [len(HISTORY) - 2 * (OVER - NEAR)]
    (event,) = moved(session)
    assert event.result.kept == (2, 9, 10, 11)
    assert event.result.messages == view
    assert all(any(message is one for one in HISTORY) for message in view)
    assert (event.tokens_before, event.tokens_after) == (event.result.tokens_before, event.result.tokens_after)
    assert event.tokens_after == session.size[1] == session.focus.compress(view).tokens_before
    assert [span.index for span in event.result.history.spans] == list(range(1, OVER + 1))
    assert {decision.index: decision.fate for decision in event.result.decisions} == {
        index: "kept" if index == 2 else "pinned" if index > 8 else "dropped" for index in range(1, OVER + 1)
    }
    assert [found.index for found in session.recall("s_7")] == [7]


def test_the_result_of_an_event_is_made_when_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    report = proposals.report

    def counted(*arguments: Any, **options: Any) -> Any:
        made.append(arguments)
        return report(*arguments, **options)

    monkeypatch.setattr(proposals, "report", counted)
    session = waiting()
    session.view(HISTORY)
    (event,) = moved(session)
    assert not made
    copied = pickle.loads(pickle.dumps(event))
    assert len(made) == 1
    assert copied.result == event.result
    assert copied.result.certificate.rollouts == len(event.result.sketches)
    assert len(made) == 1


@pytest.mark.parametrize("levels", [False, True])
async def test_the_same_history_in_other_objects_gets_a_view_of_its_own_objects(levels: bool) -> None:
    """Calls on equal histories share a proposal, and an integration finds its messages again by identity."""
    one, two = (session_of(Draft(cites(2)), budget=5000, levels=levels, target=300) for _ in range(2))
    first, second = HISTORY, copy.deepcopy(HISTORY)
    here, there = one.view(first).conversation.now(), two.view(second).conversation.now()
    proposal = await proposals.foresee(here)
    view = proposals.up_to_date(proposal, there).change.view
    assert view == proposal.change.view
    assert len(view) < len(HISTORY) or view != HISTORY
    own, others = {id(message) for message in second}, {id(message) for message in first}
    assert any(id(message) in own for message in view)
    assert not any(id(message) in others for message in view)


def test_what_is_stored_is_what_was_there_then() -> None:
    session = waiting()
    session.view(HISTORY)
    originals = {span.index: list(span.messages) for span in session.conversations[0].archived()}
    assert originals == {index: HISTORY[2 * index : 2 * index + 2] for index in (1, 3, 4, 5, 6, 7, 8)}


def test_far_beyond_the_budget_there_is_less_room_so_it_is_worked_out_again(made: list[int]) -> None:
    session = waiting(levels=True, target=300)
    further = [*HISTORY, *sized(*SIZES, 100)[-2:]]
    session.view(further)
    assert made == [len(HISTORY) - 2 * (OVER - NEAR), len(further)]
    result = moved(session)[0].result
    assert result.kept == (2, 11, 12)
    assert result.tokens_after <= result.target == 300


def test_without_a_target_a_proposal_holds_far_beyond_the_budget_too(made: list[int]) -> None:
    session = waiting(plan=cites(*range(2, 9)))
    further = [*HISTORY, *sized(*SIZES, 100)[-2:]]
    session.view(further)
    assert made == [len(HISTORY) - 2 * (OVER - NEAR)]
    assert moved(session)[0].result.kept == (*range(2, 10), 10, 11, 12)


def test_other_objects_of_the_same_content_go_back_as_they_came(made: list[int]) -> None:
    session = waiting()
    copies = sized(*SIZES)
    view = session.view(copies)
    assert moved(session)
    assert len(made) == 2, "worked out again, over the caller's own objects"
    assert all(any(message is one for one in copies) for message in view)


def test_reasoning_that_later_steps_go_on_from_stays(made: list[int]) -> None:
    """They have no thinking of their own: Anthropic wants to see where the turn began."""
    say = {"type": "thinking", "thinking": "hm", "signature": "EqQBCg=="}

    def step(number: int, *before: Any) -> list[dict[str, Any]]:
        use = {"type": "tool_use", "id": f"t{number}", "name": "f", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "x" * 90}
        return [{"role": "assistant", "content": [*before, use]}, {"role": "user", "content": [result]}]

    history = [{"role": "user", "content": "Go."}, *step(1, say)]
    for number in range(2, OVER + 1):
        history += step(number)
    session = session_of(Draft(cites()), budget=1000, ahead=0.8, tokens=len)
    session.view(history[: -2 * (OVER - NEAR)], format="anthropic")
    assert wait_until(lambda: session.conversations[0].early_draw.has_come)
    view = session.view(history, format="anthropic")
    assert violations(view, "anthropic") == []
    assert view[1] is history[1], "the thinking"
    assert len(made) == len(moved(session)) == 1


def test_sdk_objects_come_back_as_the_objects_they_were() -> None:
    history: list[Any] = sized(*[100] * OVER)
    history[2] = ChatCompletionMessage.model_validate(history[2])
    history[4] = ChatCompletionMessage.model_validate(history[4])
    session = session_of(Draft(cites(1)), budget=1000)
    short = history[:8]
    assert all(given is back for given, back in zip(short, session.view(short), strict=True))
    view = session.view(history)
    assert moved(session)
    assert [message for message in view if isinstance(message, ChatCompletionMessage)] == [history[2]]
    assert view[2] is history[2]


def test_a_step_is_known_by_its_number_and_by_its_id() -> None:
    session = waiting()
    session.view(HISTORY)
    assert session.recall(7) == session.recall("7") == session.recall("s_7") != []
    assert session.restore("s_7")
    assert not session.restore(2), "it was never dropped"
    assert HISTORY[14] in session.view(HISTORY)
    with pytest.raises(ConfigError, match="give its number"):
        session.restore("the ledger")
