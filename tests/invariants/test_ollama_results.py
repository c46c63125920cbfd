"""Ollama's templates expect a call before each result, and nothing else."""

from typing import Any

import pytest

from focusctx.invariants import violations

Message = dict[str, Any]
USER: Message = {"role": "user", "content": "go"}
RESULT: Message = {"role": "tool", "tool_name": "look", "content": "x"}


def call(times: int) -> Message:
    return {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": {}}}] * times}


@pytest.mark.parametrize(
    "messages", [[USER, call(1), RESULT], [USER, call(2), RESULT, RESULT, call(1)], [USER, call(2), RESULT, USER]]
)
def test_legal(messages: list[Message]) -> None:
    assert violations(messages, "ollama") == []


@pytest.mark.parametrize(
    ("messages", "position"),
    [([USER, RESULT], 1), ([USER, call(1), RESULT, RESULT], 3), ([call(1), {"role": "assistant"}, RESULT], 2)],
)
def test_illegal(messages: list[Message], position: int) -> None:
    assert [violation.position for violation in violations(messages, "ollama")] == [position]
