"""Calls and tool messages of LangChain, flat and inside `data`."""

from typing import Any

import pytest

from focusctx.invariants import violations

Message = dict[str, Any]
USER: Message = {"type": "human", "content": "go"}


def turn(*ids: str, invalid: tuple[str, ...] = ()) -> Message:
    calls = [{"name": "look", "args": {}, "id": each, "type": "tool_call"} for each in ids]
    broken = [{"name": "look", "args": "{", "id": each, "type": "invalid_tool_call"} for each in invalid]
    return {"type": "ai", "content": "", "tool_calls": calls, "invalid_tool_calls": broken}


def result(identity: str) -> Message:
    return {"type": "tool", "content": "x", "tool_call_id": identity}


def nested(messages: list[Message]) -> list[Message]:
    return [{"type": message["type"], "data": message} for message in messages]


@pytest.mark.parametrize(
    "messages",
    [
        [USER, turn("a"), result("a"), turn()],
        [USER, turn("a", "b"), result("b"), result("a"), USER],
        [USER, turn("a", "b"), result("b")],
        [USER, turn(invalid=("a",)), USER],
        [USER, turn("b", invalid=("a",)), result("a"), result("b"), USER],
        [USER, turn("a"), {"type": "remove", "content": "", "id": "1"}, result("a"), USER],
    ],
)
def test_legal(messages: list[Message]) -> None:
    assert violations(messages, "langchain") == []
    assert violations(nested(messages), "langchain") == []


@pytest.mark.parametrize(
    ("messages", "position"),
    [
        ([USER, result("a")], 1),
        ([USER, turn("a"), result("a"), result("a")], 3),
        ([USER, turn("a"), USER, result("b")], 1),
        ([USER, turn("a"), turn()], 1),
        ([USER, turn(invalid=("a",)), result("a"), result("a")], 3),
    ],
)
def test_illegal(messages: list[Message], position: int) -> None:
    for written in (messages, nested(messages)):
        assert position in [violation.position for violation in violations(written, "langchain")]
