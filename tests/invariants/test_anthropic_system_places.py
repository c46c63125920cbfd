"""Anthropic: system messages amid the others, where they may stand."""

from typing import Any

import pytest

from focusctx.invariants import violations

Message = dict[str, Any]
USER: Message = {"role": "user", "content": "x"}
MODEL: Message = {"role": "assistant", "content": "x"}
SYSTEM: Message = {"role": "system", "content": "x"}
SERVED: Message = {
    "role": "assistant",
    "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}],
}


@pytest.mark.parametrize("messages", [[], [USER, SYSTEM], [USER, SYSTEM, MODEL, USER, SYSTEM, MODEL], [USER, MODEL]])
def test_legal(messages: list[Message]) -> None:
    assert violations(messages, "anthropic") == []


def test_after_a_tool_the_server_runs() -> None:
    problems = [found.problem for found in violations([USER, SERVED, SYSTEM], "anthropic")]
    assert not any("system" in problem for problem in problems)


@pytest.mark.parametrize(
    ("messages", "positions"),
    [
        ([SYSTEM, USER], [0, 0]),
        ([USER, SYSTEM, SYSTEM, MODEL], [1, 2]),
        ([USER, MODEL, SYSTEM, MODEL], [2]),
        ([USER, SYSTEM, USER], [1]),
    ],
)
def test_illegal(messages: list[Message], positions: list[int]) -> None:
    assert [found.position for found in violations(messages, "anthropic")] == positions
