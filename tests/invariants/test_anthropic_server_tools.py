"""Anthropic: server tools are used and answered within one assistant turn."""

from typing import Any

import pytest

from focusctx.invariants import violations

Block = dict[str, Any]
USE = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
RESULT = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
CALL = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
ANSWER = {"type": "tool_result", "tool_use_id": "t"}
TEXT = {"type": "text", "text": "x"}


def talk(*contents: list[Block]) -> list[dict[str, Any]]:
    """Messages that begin with words of the user; those with tool results are the user's, too."""
    roles = ["user" if content[0] in (ANSWER, TEXT) else "assistant" for content in contents]
    spoken = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]
    return [{"role": "user", "content": "x"}, *spoken]


@pytest.mark.parametrize(
    "messages",
    [
        talk([USE, RESULT], [TEXT]),
        talk([USE], [RESULT], [TEXT]),  # paused and taken up again
        talk([USE, CALL], [ANSWER], [RESULT], [TEXT]),  # code that calls the agent's tools
        talk([USE, CALL], [ANSWER]),
        talk([USE, RESULT], [TEXT], [USE, RESULT]),
        talk([{**USE, "type": "mcp_tool_use"}, {**RESULT, "type": "mcp_tool_result"}], [TEXT]),
    ],
)
def test_legal(messages: list[dict[str, Any]]) -> None:
    assert violations(messages, "anthropic") == []


@pytest.mark.parametrize(
    ("messages", "position"),
    [
        (talk([RESULT]), 1),
        (talk([RESULT, USE]), 1),
        (talk([USE], [TEXT]), 1),
        (talk([USE], [TEXT], [RESULT]), 1),
        (talk([USE, CALL], [ANSWER, TEXT], [RESULT]), 1),
        (talk([USE, RESULT], [TEXT], [RESULT]), 3),
        (talk([{**USE, "id": "other"}, RESULT]), 1),
    ],
)
def test_illegal(messages: list[dict[str, Any]], position: int) -> None:
    assert violations(messages, "anthropic")[0].position == position
