"""Anthropic: the results of a turn stand in the user message right after it."""

from typing import Any

import pytest

from focusctx.invariants import violations

Message = dict[str, Any]


def assistant(*ids: str) -> Message:
    uses = [{"type": "tool_use", "id": identity, "name": "look", "input": {}} for identity in ids]
    return {"role": "assistant", "content": [{"type": "text", "text": "x"}, *uses]}


def user(*ids: str, words: str | None = None) -> Message:
    results = [{"type": "tool_result", "tool_use_id": identity, "content": "x"} for identity in ids]
    return {"role": "user", "content": [*results, *([{"type": "text", "text": words}] if words else [])]}


WORDS = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    "messages",
    [
        [WORDS, assistant("a"), user("a"), assistant()],
        [WORDS, assistant("a", "b"), user("b", "a"), assistant()],
        [WORDS, assistant("a", "b"), user("a"), user("b", words="go on"), assistant()],
        [WORDS, assistant(), assistant("a"), user("a"), WORDS],
        [WORDS, assistant("a"), assistant("b"), user("a", "b"), WORDS],
        [WORDS, assistant("a")],
        [WORDS, WORDS, {"role": "assistant", "content": "x"}, WORDS],
    ],
)
def test_legal(messages: list[Message]) -> None:
    assert violations(messages, "anthropic") == []


@pytest.mark.parametrize(
    ("messages", "position"),
    [
        ([WORDS, user("a")], 1),
        ([WORDS, assistant("a"), WORDS], 1),
        ([WORDS, assistant("a"), WORDS, assistant()], 1),
        ([WORDS, assistant("a", "b"), user("a"), assistant(), user("b")], 1),
        ([WORDS, assistant("a"), user("a", "a"), assistant()], 2),
        ([WORDS, assistant("a"), user("b"), assistant()], 1),
        ([WORDS, assistant("a"), user("a"), assistant(), user("a")], 4),
        ([user("a"), assistant("a")], 0),
    ],
)
def test_illegal(messages: list[Message], position: int) -> None:
    assert violations(messages, "anthropic")[0].position == position
