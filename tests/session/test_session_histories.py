"""Sessions for agents that do things their way: copies, edits, marks that move, forks, one task played again."""

import copy
import json

from focusctx.session.store import MemoryStore
from helpers.histories import run
from helpers.session_parts import (
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
)


def test_messages_made_anew_at_every_step_give_the_same_views():
    store = BreakableStore()
    session, proxied = session_of(Draft(cites(2))), session_of(Draft(cites(2)), store)
    for history in STEPS:
        assert proxied.view(json.loads(json.dumps(history))) == session.view(history)
    assert len(moved(proxied)) == len(moved(session))
    assert store.asked.count("events") <= len(STEPS), "known decisions are not asked for again and again"
    assert len(proxied.conversations) == 1


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
    again = session.view(edited).conversation
    assert [event.conversation for event in moved(session)][-1] == again.key
    assert len(again.events) == 1
    assert len(session.conversations) == 2, "from where they differ they are two"
    root_changed = [*history[:3], {**history[3], "content": "x" * 101}, *history[4:]]
    other = session_of(Draft(), session.store, budget=10**6)
    assert other.view(root_changed) == root_changed


def test_who_goes_back_to_before_an_event_has_all_steps_again():
    """The drops at step 8 were decided for the steps up to it; from step 3 on the run may take another course."""
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
    assert 1 in session.conversations[0].dropped
    fork = [*start, *step(9)]
    assert session.view(fork) == fork


def test_a_pin_rule_holds_against_decisions_made_without_it():
    store = MemoryStore()
    history = sized(*[100] * 6)
    session_of(Draft(), store).view(history)
    careful = session_of(Draft(), store, pin=lambda span: span.index == 2)
    assert calls_in(careful.view(history)) == {"call_2", "call_6"}


def test_a_decision_that_changes_nothing_here_is_no_event():
    """Another session shortened the longer steps, which the pin rule of this one keeps whole."""
    store = MemoryStore()
    history = sized(3, 3, 200, 200, 3)
    session_of(Draft(), store, levels=True, target=0.5).view(history)
    careful = session_of(Draft(), store, budget=1000, pin=lambda span: span.tokens > 100)
    assert careful.view(history) == history
    assert careful.conversations[0].decided.spans == {3, 4}
    assert careful.conversations[0].dropped == set()
    assert list(careful.events) == []
    assert careful.savings.events == 0


def test_nothing_is_dropped_where_the_note_would_be_longer():
    draft = Draft(lambda prompt: cites(*range(2, 9)))
    session = session_of(draft, budget=200, tokens=len, recall=True)
    history = run(9)
    assert session.view(history) == history
    assert session.events[-1].cause == "needed"
    assert "would save 0%" in session.events[-1].why
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
