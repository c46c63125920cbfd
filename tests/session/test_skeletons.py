"""Skeletons in a session: they last, can be recalled and restored, go later, and are the same in every process."""

import json
from typing import Any

from focusctx.session.cut import Cut
from hypothesis import given
from hypothesis import strategies as st

from focusctx.drafts import ScriptedDraft
from focusctx.session.session import Session
from focusctx.session.store import Spelled
from helpers.histories import Messages, call
from helpers.session_parts import cites, moved, session_of

NOISE = "nothing of note here, only words upon words " * 10
OMITTED = "[output omitted]"


def step(number: int, arguments: str, output: str = NOISE) -> Messages:
    return [
        {"role": "assistant", "content": None, "tool_calls": [call(number, "open", f'"{arguments}"')]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": output},
    ]


def history(steps: int) -> Messages:
    """In the first step the agent opened a file that it may need again; in the others it did nothing of note."""
    messages: Messages = [{"role": "user", "content": "Mend the ledger."}, *step(1, "src/ledger.py")]
    return messages + [message for number in range(2, steps + 1) for message in step(number, "x")]


def session_over(store: Any = "memory", *replies: str, **options: Any) -> Session:
    draft = ScriptedDraft(replies or [cites()])
    return session_of(draft, store, **{"budget": 1800, "tokens": len, "growth": 0.0, **options})


def outputs(view: list[Any]) -> dict[str, str]:
    return {message["tool_call_id"]: message["content"] for message in view if message["role"] == "tool"}


def test_a_skeleton_stays_as_it_is_until_the_next_event() -> None:
    session = session_over()
    first = session.view(history(4))
    assert outputs(first) == {"call_1": OMITTED, "call_4": NOISE}
    assert [event.result.skeletons for event in moved(session)] == [(1,)]
    second = session.view(history(5))
    assert second[: len(first)] == first
    assert session.focus.compress(second).tokens_before == session.size[1], "the view is counted as it is"


def test_it_can_be_recalled_and_restored() -> None:
    session = session_over()
    session.view(history(4))
    assert session.recall("s_1")[0].messages == tuple(step(1, "src/ledger.py"))
    assert NOISE in session.handle_recall({"query": "ledger"})
    assert session.restore(1)
    assert outputs(session.view(history(4))) == {"call_1": NOISE, "call_4": NOISE}
    assert not session.restore(1)


def test_a_later_event_sees_it_as_the_small_step_it_is_and_may_drop_it_whole() -> None:
    """Its original is what was there before the first event, not what the second one found."""
    session = session_over("memory", *[cites()] * 3, *[cites(5, 6, 7)] * 3)
    session.view(history(4))
    view = session.view(history(8))
    assert outputs(view) == {f"call_{number}": NOISE for number in (5, 6, 7, 8)}
    result = moved(session)[-1].result
    assert result.history.spans[0].observation == OMITTED
    assert (result.skeletons, 1 in result.dropped) == ((), True)
    assert session.recall("s_1")[0].messages == tuple(step(1, "src/ledger.py"))


def test_a_sketch_that_cites_it_keeps_it_as_it_is() -> None:
    session = session_over("memory", *[cites()] * 3, *[cites(1)] * 3)
    session.view(history(4))
    assert outputs(session.view(history(8)))["call_1"] == OMITTED


def test_whoever_shares_the_store_has_the_same_view(store_url: str) -> None:
    if store_url == "memory":
        return  # nobody shares it
    session = session_over(store_url)
    first = session.view(history(4))
    for options in ({}, {"dropped": "skeleton"}, {"budget": 10**6}):
        other = session_over(store_url, **options)
        assert other.view(history(4)) == first
        assert [event for event in other.events if event.happened] == []
        other.close()
    gone = session_over(store_url, cites(5, 6, 7))
    second = gone.view(history(8))
    assert outputs(second) == {f"call_{number}": NOISE for number in (5, 6, 7, 8)}
    assert session.view(history(8)) == second, "a skeleton that another one dropped is dropped here"
    gone.restore(1)
    assert outputs(session.view(history(8)))["call_1"] == NOISE
    gone.close()
    session.close()


cuts = st.frozensets(st.integers(1, 9)).flatmap(
    lambda dropped: st.frozensets(st.sampled_from(sorted(dropped)) if dropped else st.nothing()).map(
        lambda skeletons: Cut(dropped, skeletons)
    )
)


@given(cuts, cuts)
def test_an_event_says_what_is_new_and_no_more(earlier: Cut, event: Cut) -> None:
    event = event.without(earlier.dropped - earlier.skeletons)  # what is gone is not decided about again
    later = earlier.then(event.dropped, event.skeletons)
    news = later.since(earlier)
    assert earlier.then(news.dropped, news.skeletons) == later
    assert later.skeletons <= later.dropped
    assert news.dropped <= event.dropped
    assert later.since(later) == Cut()
    assert later.without(later.dropped) == Cut()


def test_what_stands_among_messages_that_know_their_bytes_knows_its_own() -> None:
    came = [Spelled(message, json.dumps(message, indent=1).encode()) for message in history(4)]
    view = session_over(recall=True, frozen=True).view(came)
    made = [message for message in view if not any(message is one for one in came)]
    assert len(made) == 2, "the note of what was left out, and a placeholder"
    assert [json.loads(message.json) for message in view if isinstance(message, Spelled)] == view
