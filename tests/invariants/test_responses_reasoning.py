"""Responses: reasoning stands directly before what it led to."""

from typing import Any

import pytest

from focusctx.invariants import violations

REASONING = {"type": "reasoning", "id": "r", "summary": []}
CALL = {"type": "function_call", "call_id": "a", "name": "look", "arguments": ""}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "x"}
USER = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    "following",
    [
        {"role": "assistant", "content": "x"},
        {"type": "message", "role": "assistant", "content": []},
        {"type": "web_search_call", "id": "w"},
        {"type": "item_reference", "id": "x"},
        {"id": "x"},
        {"type": "something_new"},
    ],
)
def test_legal(following: dict[str, Any]) -> None:
    assert violations([USER, REASONING, following], "responses") == []
    assert violations([REASONING, REASONING, CALL, OUTPUT, REASONING, following], "responses") == []


@pytest.mark.parametrize(
    ("items", "position"),
    [
        ([USER, REASONING], 1),
        ([USER, REASONING, USER], 1),
        ([CALL, REASONING, OUTPUT], 1),
        ([REASONING, {"role": "developer", "content": "x"}], 0),
        ([REASONING, REASONING, USER], 1),
    ],
)
def test_illegal(items: list[dict[str, Any]], position: int) -> None:
    assert [found.position for found in violations(items, "responses")] == [position]
