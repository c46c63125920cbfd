"""A message list is recognised by the first message that only one format can have."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.errors import ConfigError
from focusctx.wire import WIRES, claimants, claimed, recognise, wire_named
from strategies import HISTORIES, format_of

CLAIMED: dict[str, list[dict[str, Any]]] = {
    "chat_completions": [
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "function", "name": "look", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": ""}},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "file", "file": {"file_id": "f"}}]},
    ],
    "responses": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": ""},
        {"type": "item_reference", "id": "msg_1"},
        {"id": "msg_1"},
        {"type": "unheard_of"},
        {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
        {"role": "user", "content": ({"type": "input_image", "file_id": "f"},)},
        {"role": "user", "content": [{"type": "input_audio"}, {"type": "input_text", "text": "x"}]},
    ],
    "anthropic": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
        {"role": "user", "content": ({"type": "tool_result", "tool_use_id": "t"},)},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": ""}]},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": ""}]},
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "x", "input": {}}]},
        {"role": "user", "content": [{"type": "document", "source": {}}]},
        {"role": "user", "content": [{"type": "image", "source": {}}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t", "name": "x", "input": {}}],
        },
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"},
        {"type": "message", "role": "assistant", "content": [], "stop_reason": None, "usage": {}},
    ],
    "ai_sdk": [
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "a", "output": {"type": "text"}}]},
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "a", "toolName": "look", "input": {}}]},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}]},
        {"role": "tool", "content": [{"type": "tool-approval-response", "approvalId": "a", "approved": True}]},
        {"role": "user", "content": [{"type": "file", "data": "", "mediaType": "image/png"}]},
        {"role": "user", "content": [{"type": "image", "image": ""}]},
        {"role": "user", "content": "x", "providerOptions": {}},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "x"}]},
        {"parts": [{"text": "x"}]},
        {"role": "model", "parts": []},
        {"role": "model", "parts": ({"function_call": {"name": "look", "args": {}}},)},
        {"role": "function", "parts": [{"functionResponse": {"name": "look", "response": {}}}]},
    ],
    "ollama": [
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": {}}}]},
        {"role": "assistant", "content": "x", "thinking": "y"},
        {"role": "tool", "tool_name": "look", "content": "x"},
        {"role": "user", "content": "x", "images": ["aGk="]},
    ],
}


@pytest.mark.parametrize(("format", "message"), [(name, each) for name, list_ in CLAIMED.items() for each in list_])
def test_messages_of_one_format_only(format: str, message: dict[str, Any]) -> None:
    wire = claimed(message)
    assert wire is not None
    assert wire.name == format
    assert recognise([{"role": "user", "content": "hi"}, message]).name == format


@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": "x"},
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "user", "content": [{"type": ["image_url"]}, "text", None]},
        {"role": "user", "content": 3},
        {"id": "x", "content": "a message that lost its role"},
        {},
    ],
)
def test_messages_any_format_can_have_decide_nothing(message: dict[str, Any]) -> None:
    assert claimed(message) is None
    assert recognise([message]).name == "chat_completions"


@pytest.mark.parametrize(
    "message",
    [
        {"type": "message", "role": "user", "content": "x"},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "x"}]},
    ],
)
def test_messages_that_say_they_are_messages_are_responses_unless_others_know_better(message: dict[str, Any]) -> None:
    assert claimed(message) is None
    assert recognise([message]).name == "responses"
    for name, messages in CLAIMED.items():
        assert recognise([message, messages[0]]).name == name


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_no_message_is_claimed_by_another_format(kind: str, data: st.DataObject) -> None:
    for message in data.draw(HISTORIES[kind]):
        assert claimants([message]) <= {format_of(kind)}


def test_formats_have_names() -> None:
    assert [wire_named(name).name for name in WIRES] == [
        "chat_completions",
        "responses",
        "anthropic",
        "ai_sdk",
        "gemini",
        "ollama",
    ]
    with pytest.raises(ConfigError, match="unknown format 'bedrock'"):
        wire_named("bedrock")
