"""A message list becomes a goal, the user's words and numbered spans."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.config import FocusConfig
from focusctx.errors import ConfigError, MessageError
from focusctx.invariants import violations
from focusctx.pipeline.rebuild import rebuild
from focusctx.pipeline.split import read_history
from focusctx.types import History
from histories import call, run
from oracles import kept_spans
from strategies import HISTORIES, SAID, Json, damaged_histories, format_of, json_lists, json_values

FORMATS = ("chat_completions", "responses", "anthropic")


def read(messages: list[Any], *, format: str | None = None, goal: str | None = None, **settings: Any) -> History:
    return read_history(messages, FocusConfig(**settings), len, format=format, goal=goal)


def shape(history: History) -> list[tuple[str, str, str]]:
    return [(span.thought, span.action, span.observation) for span in history.spans]


# ---------------------------------------------------------------------------------------------- what holds always


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_every_message_has_one_place(kind: str, data: st.DataObject) -> None:
    """Owners cover the list, spans hold exactly what they own, and user words are owned by nobody."""
    messages = data.draw(HISTORIES[kind])
    history = read(messages)
    assert history.messages == tuple(messages)
    assert len(history.owners) == len(messages)
    assert [span.index for span in history.spans] == list(range(1, history.newest + 1))
    for span in history.spans:
        owned = [
            message if isinstance(owner, int) else {**message, "content": _picked(message, owner, span.index)}
            for message, owner in zip(messages, history.owners, strict=True)
            if owner == span.index or (isinstance(owner, tuple) and span.index in owner)
        ]
        assert list(span.messages) == owned
        assert span.needs is None or span.needs < span.index
    said = [turn.text for turn in history.user_turns]
    assert len(said) == sum(_speaks(message) for message in messages)
    assert all(SAID in text for text in said)


def _picked(message: Json, owner: tuple[int, ...], index: int) -> list[Json]:
    return [block for block, its_owner in zip(message["content"], owner, strict=True) if its_owner == index]


def _speaks(message: Json) -> bool:
    content = message.get("content")
    texts = [block.get("text", "") for block in content] if isinstance(content, list) else [content]
    return message.get("role") == "user" and any(str(text).startswith(SAID) for text in texts)


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_what_a_message_belongs_to_never_changes_as_the_history_grows(kind: str, data: st.DataObject) -> None:
    messages = data.draw(HISTORIES[kind])
    whole = read(messages, format=format_of(kind))
    for length in range(len(messages)):
        assert read(messages[:length], format=format_of(kind)).owners == whole.owners[:length]


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_tokens_add_up(kind: str, data: st.DataObject) -> None:
    """What is left counts what it counted before: before, less the dropped spans, is after."""
    messages = data.draw(HISTORIES[kind])
    history = read(messages)
    kept = kept_spans(history, data)
    dropped = [span for span in history.spans if span.index not in kept]
    again = read(rebuild(history, kept), format=history.format)
    assert again.tokens == history.tokens - sum(span.tokens for span in dropped)
    assert sum(span.tokens for span in history.spans) <= history.tokens


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_a_compressed_history_reads_as_the_spans_that_were_kept(kind: str, data: st.DataObject) -> None:
    """So the next event decides about the same steps, and about no word of the user."""
    messages = data.draw(HISTORIES[kind])
    history = read(messages)
    if any(span.waiting for span in history.spans):
        return  # a result that came late may find its step only once what stood between is gone
    kept = kept_spans(history, data)
    again = read(rebuild(history, kept), format=history.format)
    assert shape(again) == [each for number, each in enumerate(shape(history), 1) if number in kept]
    assert [turn.text for turn in again.user_turns] == [turn.text for turn in history.user_turns]


# ------------------------------------------------------------------------------------------- the shape of a step


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


def test_reasoning_whose_follower_is_only_a_reference_is_not_dropped_without_it() -> None:
    history = read(
        [
            {"role": "user", "content": "go"},
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "item_reference", "id": "fc_1"},
            {"type": "function_call_output", "call_id": "a", "output": "x"},
            {"role": "user", "content": "on"},
            {"role": "assistant", "content": "done"},
        ]
    )
    assert [span.waiting for span in history.spans] == [True, False]


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


# -------------------------------------------------------------------------------------- two readings of user messages

RULES = {"role": "system", "content": "Act like this:\n```bash\nls\n```"}
PLAIN = {"role": "system", "content": "You help."}
ACTS = {"role": "assistant", "content": "I look.\n```bash\nls\n```"}
TALKS = {"role": "assistant", "content": "May I look?"}
OUTPUT = "<returncode>0</returncode>\n<output>\na.py\n</output>"


@pytest.mark.parametrize(
    ("system", "turn", "answer", "observed"),
    [
        (RULES, ACTS, OUTPUT, True),
        (RULES, ACTS, "Observation: a.py", True),
        # One of the three signs is missing.
        (PLAIN, ACTS, OUTPUT, False),
        (RULES, TALKS, OUTPUT, False),
        (RULES, ACTS, "a.py", False),
        # A person speaks, perhaps of outputs.
        (RULES, ACTS, "Stop!", False),
        (RULES, ACTS, f"{OUTPUT}\nThis is what I get, too. What now?", False),
        (RULES, ACTS, "My observation: it is slow", False),
        (RULES, ACTS, "The output should be a list", False),
        (RULES, ACTS, "Output:\n```\nTraceback\n```", False),
        (RULES, ACTS, "```\nls: no such file\n```", False),
    ],
)
def test_auto_takes_a_user_message_for_an_observation_only_on_three_signs(
    system: Json, turn: Json, answer: str, observed: bool
) -> None:
    messages = [system, {"role": "user", "content": "task"}, turn, {"role": "user", "content": answer}]
    for name in (None, *FORMATS):
        history = read(messages, format=name)
        assert history.owners == (0, 0, 1, 1 if observed else 0)
        assert len(history.user_turns) == (1 if observed else 2)


def test_the_task_itself_may_show_how_to_act() -> None:
    task = {"role": "user", "content": f"task\n{RULES['content']}"}
    assert read([task, ACTS, {"role": "user", "content": OUTPUT}]).owners == (0, 1, 1)


def test_code_in_later_words_does_not_turn_talk_into_an_agent_run() -> None:
    """Else the reading would change once the steps before those words are dropped."""
    pasted = {"role": "user", "content": "look:\n```bash\nls\n```"}
    messages = [{"role": "user", "content": "hi"}, TALKS, pasted, ACTS, {"role": "user", "content": OUTPUT}]
    assert read(messages).owners == (0, 1, 0, 2, 0)
    assert read([messages[0], *messages[2:]]).owners == (0, 0, 1, 0)


def test_a_second_answer_in_a_row_is_the_users() -> None:
    twice = [{"role": "user", "content": OUTPUT}, {"role": "user", "content": OUTPUT}]
    assert read([RULES, ACTS, *twice]).owners == (0, 1, 1, 0)


def test_never_always_and_a_function_of_ones_own() -> None:
    messages = [RULES, ACTS, {"role": "user", "content": OUTPUT}, TALKS, {"role": "user", "content": "yes"}]
    assert read(messages, observations="never").owners == (0, 1, 0, 2, 0)
    assert read(messages, observations="always").owners == (0, 1, 1, 2, 2)
    asked: list[tuple[Any, Any]] = []

    def rule(message: Any, before: Any) -> bool:
        asked.append((message, before))
        return message["content"] == "yes"

    assert read(messages, observations=rule).owners == (0, 1, 0, 2, 2)
    assert [(a is messages[2] or a is messages[4], b is ACTS or b is TALKS) for a, b in asked] == [(True, True)] * 2


def test_always_still_leaves_words_that_interrupt_a_tool_call() -> None:
    messages = [{"role": "assistant", "tool_calls": [call(1)]}, {"role": "user", "content": "wait"}]
    assert read(messages, observations="always").owners == (1, 0)


# -------------------------------------------------------------------------------------------------- malformed input


@pytest.mark.parametrize("messages", [None, "text", 3, {"role": "user"}, {1, 2}, iter([])])
def test_what_is_no_list_is_refused(messages: Any) -> None:
    with pytest.raises(MessageError, match="expected a list of messages"):
        read(messages)


def test_a_whole_request_is_refused_with_a_hint() -> None:
    with pytest.raises(MessageError, match="pass its 'messages'"):
        read({"messages": []})  # type: ignore[arg-type]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown format 'x'; known: chat_completions, responses, anthropic"):
        read([], format="x")


MALFORMED: dict[str, list[Any]] = {
    "chat_completions": [
        {"content": "no role"},
        {"role": 3, "content": "x"},
        {"role": "user", "content": 3},
        {"role": "user", "content": {"type": "text"}},
        {"role": "user", "content": ["text"]},
        {"role": "user", "content": [{"text": "no type"}]},
        {"role": "tool", "content": "no id"},
        {"role": "tool", "tool_call_id": 3, "content": "x"},
        {"role": "assistant", "tool_calls": {"id": "a"}},
        {"role": "assistant", "tool_calls": ["a"]},
        {"role": "assistant", "tool_calls": [{"type": "function"}]},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": "look"}]},
        {"role": "assistant", "function_call": "look"},
    ],
    "responses": [
        {"content": "no role and no type"},
        {"type": 3},
        {"type": "message", "content": "no role"},
        {"type": "message", "role": "user", "content": 3},
        {"type": "function_call", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": 3},
        {"type": "custom_tool_call", "name": "look"},
        {"type": "function_call_output", "call_id": 3, "output": "x"},
        {"type": "local_shell_call_output", "output": "x"},
        {"type": "mcp_approval_request", "name": "look"},
        {"type": "mcp_approval_response", "approve": True},
        {"type": "program", "code": "1"},
    ],
    "anthropic": [
        {"content": "no role"},
        {"role": "user", "content": 3},
        {"role": "user", "content": [3]},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "look"}]},
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": 3}]},
        {"role": "user", "content": [{"type": "tool_result", "content": "x"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [3]}]},
    ],
}


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_a_malformed_message_is_named_by_its_position(format: str, data: st.DataObject) -> None:
    messages = data.draw(HISTORIES[format])
    wrong = data.draw(st.sampled_from([*MALFORMED[format], None, "text", 3, ["role", "user"]]))
    place = data.draw(st.integers(0, len(messages)))
    with pytest.raises(MessageError) as caught:
        read([*messages[:place], wrong, *messages[place:]], format=format)
    assert caught.value.position == place
    assert str(caught.value).startswith(f"message {place}: ")


@pytest.mark.parametrize(
    ("format", "message"),
    [
        ("chat_completions", {"role": "assistant", "content": "x", "reasoning_content": 3, "refusal": [], "audio": 3}),
        ("chat_completions", {"role": "assistant", "tool_calls": [{"id": "a"}]}),
        ("chat_completions", {"role": "assistant", "function_call": {}}),
        ("chat_completions", {"role": "user", "content": [{"type": "text", "text": 3}]}),
        ("responses", {"type": "reasoning", "summary": 3, "content": "x", "encrypted_content": 3}),
        ("responses", {"type": "reasoning", "summary": [3, {"text": 3}]}),
        ("responses", {"type": "function_call_output", "call_id": "a", "output": [3], "caller": "me"}),
        ("responses", {"type": "web_search_call", "action": 3, "results": 3, "name": 3}),
        ("anthropic", {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": "yes"}]}),
        ("anthropic", {"role": "assistant", "content": [{"type": "web_search_tool_result", "tool_use_id": 3}]}),
        ("anthropic", {"role": "assistant", "content": [{"type": "thinking", "thinking": 3}]}),
    ],
)
def test_oddities_that_are_the_providers_to_judge_are_read(format: str, message: Json) -> None:
    history = read([message], format=format)
    assert len(history.owners) == 1
    violations(rebuild(history, (), (1,)), format)


@pytest.mark.parametrize("format", [None, *FORMATS])
@given(messages=json_lists | json_values)
def test_no_json_gets_more_than_a_message_error(format: str | None, messages: Any) -> None:
    with suppress(MessageError):
        history = read(messages, format=format)
        for skeletons in ((), [span.index for span in history.spans]):
            rebuild(history, (), skeletons)


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=300)
@given(data=st.data())
def test_neither_does_a_history_with_one_value_damaged(kind: str, data: st.DataObject) -> None:
    messages = data.draw(damaged_histories(kind))
    with suppress(MessageError):
        history = read(messages, format=format_of(kind))
        for skeletons in ((), [span.index for span in history.spans]):
            violations(rebuild(history, (), skeletons), history.format)
