"""The shape of a step in each format: which messages are one span, and what counts as its tokens and its goal."""

from focusctx.pipeline.rebuild import rebuild
from helpers.histories import call, run
from pipeline.reading import RULES, read, shape
from strategies import Json


def test_a_chat_step_is_a_turn_with_all_its_results() -> None:
    messages = run(1)
    messages[2]["tool_calls"].append(call(2, "find", '{"x": 1}'))
    messages += [{"role": "tool", "tool_call_id": "call_2", "content": "found"}, {"role": "assistant", "content": "ok"}]
    history = read(messages)
    assert shape(history) == [("thought 1", 'look({})\nfind({"x": 1})', "result 1\nfound"), ("ok", "", "")]
    assert history.owners == (0, 0, 1, 1, 1, 2)
    assert history.goal == "Do the task."


def test_hidden_reasoning_of_a_chat_server_is_thought() -> None:
    turn = {"role": "assistant", "content": "so", "reasoning_content": "hm", "tool_calls": [call(1)]}
    assert shape(read([turn])) == [("hm\nso", "look({})", "")]


def test_unanswered_calls_make_a_span_wait() -> None:
    messages = run(2)
    assert [span.waiting for span in read(messages).spans] == [False, False]
    assert [span.waiting for span in read(messages[:-1]).spans] == [False, True]


def test_responses_items_of_one_response_are_one_step() -> None:
    history = read(
        [
            {"role": "user", "content": "go"},
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
            {"type": "function_call", "call_id": "b", "name": "find", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "b", "output": "found"},
            {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "seen"}]},
            {"type": "function_call", "call_id": "c", "name": "go", "arguments": "{}"},
        ]
    )
    assert shape(history) == [("hm", "look({})\nfind({})", "found\nseen"), ("", "go({})", "")]
    assert history.spans[1].needs == 1
    assert history.owners == (0, 1, 1, 1, 1, 1, 2)


def test_an_approved_call_stays_with_its_approval() -> None:
    """An approval without the call it led to would make the provider run the call again."""
    asked = {"type": "mcp_approval_request", "id": "q", "server_label": "m", "name": "pay", "arguments": "{}"}
    history = read(
        [
            {"role": "user", "content": "go"},
            asked,
            {"type": "mcp_approval_response", "approval_request_id": "q", "approve": True},
            {**asked, "type": "mcp_call", "id": "c", "approval_request_id": "q", "output": "paid"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "thanks"},
        ]
    )
    assert history.owners == (0, 1, 1, 1, 1, 0)


def test_an_anthropic_message_may_belong_to_a_step_and_to_the_user() -> None:
    history = read(
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": "seen"},
                    {"type": "text", "text": "and hurry"},
                ],
            },
        ]
    )
    assert history.owners == (0, 1, (1, 0))
    assert [(turn.after, turn.text) for turn in history.user_turns] == [(0, "go"), (1, "and hurry")]
    assert shape(history) == [("", "look({})", "seen")]


def test_words_may_stand_between_results() -> None:
    uses = [{"type": "tool_use", "id": identity, "name": "look", "input": {}} for identity in "ab"]
    first, second = ({"type": "tool_result", "tool_use_id": identity, "content": identity} for identity in "ab")
    words = {"type": "text", "text": "and hurry"}
    history = read(
        [{"role": "assistant", "content": uses}, {"role": "user", "content": [first, words, second]}, {**RULES}]
    )
    assert history.owners == (1, (1, 0, 1), 0)
    assert rebuild(history, ()) == [{"role": "user", "content": [words]}, RULES]


def thinking_step(number: int, *before: Json) -> list[Json]:
    use = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "x"}
    return [{"role": "assistant", "content": [*before, use]}, {"role": "user", "content": [result]}]


def test_a_step_without_thinking_needs_the_thinking_its_turn_began_with() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    history = read(
        [
            {"role": "user", "content": "go"},
            *thinking_step(1),
            *thinking_step(2, thinking),
            *thinking_step(3),
            *thinking_step(4),
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "more"},
            *thinking_step(6),
        ]
    )
    assert [span.needs for span in history.spans] == [None, None, 2, 2, 2, None]


def test_thinking_in_the_middle_of_a_step_does_not_replace_what_it_began_from() -> None:
    """Sent in two pieces, the second with thinking: the API joins them, and the step still opens without."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    pieces = [{"role": "assistant", "content": "well"}, *thinking_step(2, thinking)]
    history = read([{"role": "user", "content": "go"}, *thinking_step(1, thinking), *pieces, *thinking_step(3)])
    assert [span.needs for span in history.spans] == [None, 1, 1]


def test_code_the_provider_runs_is_one_step_until_its_result() -> None:
    run_code = {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {}}
    ran = {"type": "code_execution_tool_result", "tool_use_id": "s", "content": {}}
    messages = [
        {"role": "user", "content": "go"},
        *thinking_step(1, run_code),
        *thinking_step(2),
        {"role": "assistant", "content": [ran, {"type": "text", "text": "ok"}]},
        *thinking_step(3),
    ]
    history = read(messages)
    assert history.owners == (0, 1, 1, 1, 1, 1, 1, 1)
    assert not history.spans[0].waiting
    assert read(messages[:5]).spans[0].waiting


def test_images_count_as_images_and_not_as_their_text() -> None:
    picture = "A" * 100_000
    chat = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": picture}}]}]
    items = [{"type": "image_generation_call", "id": "i", "status": "completed", "result": picture}]
    claude = [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": picture}}]}]
    for messages in (chat, items, claude):
        assert 0 < read(messages).tokens < 5000


def test_static_prompts_are_not_held_against_the_budget() -> None:
    for role in ("system", "developer"):
        assert read([{"role": role, "content": "long"}, {"role": "user", "content": "go"}]).tokens == 2
    assert read([{"role": "system", "content": "long"}], format="anthropic").tokens == 0
    assert read([{"role": "developer", "content": "long"}], format="responses").tokens == 0


def test_the_goal_is_what_the_user_first_asked() -> None:
    greeting = {"role": "assistant", "content": "What can I do?"}
    asked = [{"role": "user", "content": "this"}, {"role": "user", "content": "and that"}]
    assert read([*asked, greeting]).goal == "this\nand that"
    assert read([greeting, *asked]).goal == "this"
    assert read([greeting]).goal == ""
    assert read([*asked, greeting], goal="mine").goal == "mine"
