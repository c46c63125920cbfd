"""Anthropic: at most four cache marks, the hour-long ones first."""

from typing import Any

import pytest

from focusctx.invariants import violations

SHORT: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
FIVE: dict[str, Any] = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}
LONG: dict[str, Any] = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
NONE: dict[str, Any] = {"cache_control": None}


def message(*marks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": "x", **mark} for mark in marks]}


def inside_a_result(*marks: dict[str, Any]) -> list[dict[str, Any]]:
    result = {"type": "tool_result", "tool_use_id": "t", "content": message(*marks)["content"]}
    use = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [message(SHORT, FIVE), message(SHORT, FIVE), message(NONE, {})],
        [message(LONG), message(LONG, SHORT)],
        [message(LONG), *inside_a_result(FIVE)],
    ],
)
def test_legal(messages: list[dict[str, Any]]) -> None:
    assert violations(messages, "anthropic") == []


@pytest.mark.parametrize(
    ("messages", "position"),
    [
        ([message(SHORT, SHORT, SHORT), message(SHORT), message({}), message(SHORT)], 3),
        ([message(SHORT), *inside_a_result(SHORT, SHORT, SHORT, SHORT)], 2),
        ([message(SHORT), message(LONG)], 1),
        ([message(LONG), *inside_a_result(FIVE, LONG)], 2),
    ],
)
def test_illegal(messages: list[dict[str, Any]], position: int) -> None:
    assert [found.position for found in violations(messages, "anthropic")] == [position]
