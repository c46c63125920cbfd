"""What actions needed of the past, on a run that can be read."""

from focusctx.replay.evidence import Evidence
from replay.logs import SHOPPING, chat, run_of, step


def test_evidence_is_what_only_past_spans_gave() -> None:
    needs = {action.span: action.needs for action in Evidence(run_of(SHOPPING)).actions}
    assert needs == {
        1: frozenset(),  # W1111111 stands in the task
        2: {"7777001"},
        3: {"pay_4242"},
        4: {"7777001"},
        5: {"7777002"},  # policy_v2 is in the system prompt, the address in the task
        6: {"refund_9999"},  # refund_8888 is what the user said
    }


def test_words_count_from_when_they_were_said() -> None:
    late = chat(
        step(1, {}, "id_5555"),
        step(2, {"x": "id_5555"}, "ok"),
        [{"role": "user", "content": "id_5555 it is"}],
        step(3, {"x": "id_5555"}, "ok"),
    )
    assert [action.needs for action in Evidence(run_of(late)).actions] == [frozenset(), {"id_5555"}, frozenset()]


def test_an_action_knows_its_history() -> None:
    actions = Evidence(run_of(SHOPPING)).actions
    assert [action.messages for action in actions] == [2, 4, 6, 8, 10, 13]
    assert [action.repeats for action in actions] == [(), (), (), (2,), (), ()]
    assert all(action.output_tokens > 0 for action in actions)


def test_a_greeting_before_anybody_spoke_is_no_action() -> None:
    greeting = [SHOPPING[0], {"role": "assistant", "content": "Hello, how can I help?"}, *SHOPPING[1:]]
    assert [action.span for action in Evidence(run_of(greeting)).actions] == [2, 3, 4, 5, 6, 7]
    agent_alone = [SHOPPING[0], *step(1, {}, "a"), *step(2, {}, "b")]
    assert [action.span for action in Evidence(run_of(agent_alone)).actions] == [2]


def test_the_whole_future_counts_at_a_point() -> None:
    evidence = Evidence(run_of(SHOPPING))
    assert evidence.needed_after(4) == {"7777001", "7777002", "pay_4242"}
    assert evidence.needed_after(8) == {"7777001", "7777002"}
    assert evidence.needed_after(len(SHOPPING)) == frozenset()


def test_words_and_results() -> None:
    evidence = Evidence(run_of(SHOPPING))
    assert evidence.words(12) == ["Shop rules: policy_v2.", "Refund order W1111111 for ann@example.org."]
    assert evidence.words(13)[2:] == ["Tell me about refund_8888 too."]
    assert evidence.results_of(2) == {"Error: item 7777001 is locked"}
    spans = evidence.history.spans
    assert evidence.span_tokens_before(3) == spans[0].tokens + spans[1].tokens
    assert evidence.tokens_before(len(SHOPPING)) == evidence.history.tokens
