"""The check against the SDKs' types is only worth something if it finds what is wrong."""

from typing import Any

import pytest

from helpers.sdk_types import sdk_errors


@pytest.mark.parametrize(
    ("format", "message"),
    [
        ("chat_completions", {"role": "user"}),
        ("chat_completions", {"role": "nobody", "content": "x"}),
        ("chat_completions", {"role": "user", "content": "x", "extra": 1}),
        ("chat_completions", {"role": "tool", "content": "x"}),
        ("chat_completions", {"role": "tool", "tool_call_id": 1, "content": "x"}),
        # Lists the SDK calls iterables are looked into.
        ("chat_completions", {"role": "user", "content": [{"type": "text"}]}),
        ("chat_completions", {"role": "user", "content": [{"type": "tool_use", "id": "a"}]}),
        ("chat_completions", {"role": "assistant", "tool_calls": [{"id": "a", "type": "function"}]}),
        ("chat_completions", {"role": "assistant", "tool_calls": "a"}),
        ("responses", {"type": "function_call", "name": "look", "arguments": ""}),
        ("responses", {"type": "message", "role": "user", "content": [{"type": "text", "text": "x"}]}),
        ("responses", {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text"}]}),
        ("responses", {"type": "computer_call_output", "call_id": "a", "output": "x"}),
        ("responses", {"type": "nothing_known"}),
        ("anthropic", {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}),
        ("anthropic", {"role": "user", "content": [{"type": "text", "text": "x", "extra": 1}]}),
        ("anthropic", {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}),
        (
            "anthropic",
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "nope"}]}]},
        ),
        ("anthropic", {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"ttl": "2h"}}]}),
    ],
)
def test_wrong_messages_are_found(format: str, message: dict[str, Any]) -> None:
    fine = {"role": "user", "content": "x"}
    assert sdk_errors([fine], format) == []
    assert all(error.startswith("message 1: ") for error in sdk_errors([fine, message], format))
    assert sdk_errors([fine, message], format)
