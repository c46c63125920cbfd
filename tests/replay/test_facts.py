"""Facts, what actions needed of the past, and failures that were repeated, in every format."""

from typing import Any

import pytest

from focusctx.config import FocusConfig
from focusctx.pipeline.split import read_history
from focusctx.replay.facts import Evidence, arguments, facts_in, has_failed, repeated_failures
from focusctx.types import Span
from replay.logs import SHOPPING, chat, run_of, step


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("mail ann.lee@example.org now", {"ann.lee@example.org"}),
        ("open ./src/app/main.py and ../up/x.txt", {"src/app/main.py", "../up/x.txt"}),
        ("order #W2378156 on 2024-05-15", {"#W2378156", "2024-05-15"}),
        ("call get_user, then os.path and CamelCase", {"get_user", "os.path", "CamelCase"}),
        ("the 3rd of 250 things, line 250p", set()),
        ("code 4OG6T3 and 4242", {"4OG6T3", "4242"}),
        ("plain words only", set()),
    ],
)
def test_strings_that_must_be_right_to_the_letter(text: str, facts: set[str]) -> None:
    assert facts_in(text) == facts


def test_a_call_gives_the_leaves_of_its_arguments() -> None:
    function = {
        "name": "tool_name",
        "arguments": '{"field_name": ["id_1", {"deep_er": "id_2", "n": 12345}], "x": null}',
    }
    call = {"id": "1", "type": "function", "function": function}
    span = Span(1, messages=({"role": "assistant", "content": "see id_0", "tool_calls": [call]},))
    assert facts_in(arguments(span)) == {"id_1", "id_2", "12345"}


def test_arguments_that_are_no_json_are_taken_as_they_are() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{broken id_1"}}
    assert arguments(Span(1, messages=({"role": "assistant", "tool_calls": [call]},))) == "{broken id_1"


def test_a_text_agent_gives_what_stands_in_its_shell_block() -> None:
    action = "```python\nquoted_name\n```\n```bash\ncat some_file.py\nprint('\\nTotal_x')\n```"
    assert facts_in(arguments(Span(1, action=action))) == {"some_file.py", "Total_x"}
    assert facts_in(arguments(Span(1, action="search[some_name]"))) == {"some_name"}


def test_every_format_gives_the_same() -> None:
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": "id_1"}'}}],
        },
    ]
    responses: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": "go"},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"a": "id_1"}'},
    ]
    anthropic: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {"a": "id_1"}}]},
    ]
    call = {"type": "tool-call", "toolCallId": "1", "toolName": "tool_name", "input": {"a": "id_1"}}
    ai_sdk: list[dict[str, Any]] = [{"role": "user", "content": "go"}, {"role": "assistant", "content": [call]}]
    gemini: list[dict[str, Any]] = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "tool_name", "args": {"a": "id_1"}}}]},
    ]
    ollama: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "tool_name", "arguments": {"a": "id_1"}}}]},
    ]
    for messages in (chat, responses, anthropic, ai_sdk, gemini, ollama):
        (span,) = read_history(messages, FocusConfig(), len).spans
        assert facts_in(arguments(span)) == {"id_1"}


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


@pytest.mark.parametrize(
    "observation",
    [
        "<returncode>1</returncode>\n<output>\n</output>",
        "<returncode>-9</returncode>",
        "some output\nTraceback (most recent call last)\n  File",
        "Error: no such order",
        '{"error": "unknown"}',
        '{"success": false, "why": "late"}',
        "done, exit code: 2",
    ],
)
def test_failures(observation: str) -> None:
    assert has_failed(Span(1, action="f()", observation=observation))
    assert not has_failed(Span(1, observation=observation)), "nothing was tried"


@pytest.mark.parametrize(
    "observation",
    [
        "<returncode>0</returncode>\n<output>\nErrors: 0\n</output>",
        "No Error here",
        '{"error": null, "order": 1}',
        '{"ok": true}',
        "exit code: 0",
        "",
    ],
)
def test_no_failures(observation: str) -> None:
    assert not has_failed(Span(1, action="f()", observation=observation))


def test_the_same_call_word_for_word() -> None:
    def span(index: int, action: str, failed: bool = True) -> Span:
        return Span(index, action=action, observation="Error: x" if failed else "fine")

    spans = [span(1, "f(1)"), span(2, "f(2)"), span(3, "f(1)", failed=False), span(4, "f( 1)"), span(5, "f(1)")]
    spans += [span(6, " f(1)\n"), span(7, "f(2)")]
    assert repeated_failures(spans) == {5: (1,), 6: (1, 5), 7: (2,)}
