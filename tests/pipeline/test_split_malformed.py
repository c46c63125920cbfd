"""Malformed input: refused with the position of what is wrong, or left to the provider to judge."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.errors import ConfigError, MessageError
from focusctx.invariants import violations
from focusctx.pipeline.rebuild import rebuild
from helpers.thorough import examples
from pipeline.reading import FORMATS, read
from strategies import HISTORIES, Json, damaged_histories, format_of, json_lists, json_values


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
    "ollama": [
        {"content": "no role"},
        {"role": "user", "content": 3},
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {"role": "assistant", "tool_calls": 3},
        {"role": "assistant", "tool_calls": [3]},
        {"role": "assistant", "tool_calls": [{"function": {"arguments": {}}}]},
    ],
    "gemini": [
        {"role": 3, "parts": [{"text": "x"}]},
        {"role": "user", "parts": 3},
        {"role": "user", "parts": [3]},
        {"role": "model", "parts": [{"functionCall": {"args": {}}}]},
        {"role": "model", "parts": [{"function_call": 3}]},
        {"role": "user", "parts": [{"functionResponse": {"response": {}}}]},
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
        ("gemini", {"role": "model", "parts": [{"text": 3, "thought": "x", "thoughtSignature": 3}, {}]}),
        ("gemini", {"role": "user", "parts": [{"functionResponse": {"name": "a", "response": 3, "parts": 3}}]}),
        ("gemini", {"role": "user", "parts": [{"telepathy": 3}, {"text": None}]}),
        ("ollama", {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": 3}}], "thinking": 3}),
        ("ollama", {"role": "tool", "tool_name": 3, "images": 3}),
    ],
)
def test_oddities_that_are_the_providers_to_judge_are_read(format: str, message: Json) -> None:
    history = read([message], format=format)
    assert len(history.owners) == 1
    violations(rebuild(history, (), {1: frozenset()}), format)


@pytest.mark.parametrize("format", [None, *FORMATS])
@given(messages=json_lists | json_values)
def test_no_json_gets_more_than_a_message_error(format: str | None, messages: Any) -> None:
    with suppress(MessageError):
        history = read(messages, format=format)
        for shortened in ({}, {span.index: frozenset[int]() for span in history.spans}):
            rebuild(history, (), shortened)


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=examples(300))
@given(data=st.data())
def test_neither_does_a_history_with_one_value_damaged(kind: str, data: st.DataObject) -> None:
    messages = data.draw(damaged_histories(kind))
    with suppress(MessageError):
        history = read(messages, format=format_of(kind))
        for shortened in ({}, {span.index: frozenset[int]() for span in history.spans}):
            violations(rebuild(history, (), shortened), history.format)
