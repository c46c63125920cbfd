"""Responses: references stand with the rest of their step."""

from typing import Any

import pytest

from focusctx.invariants import violations

USER = {"role": "user", "content": "x"}
TEXT = {"role": "assistant", "content": "x"}


def reference(identity: str) -> dict[str, Any]:
    return {"type": "item_reference", "id": identity}


def call(identity: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": identity, "name": "look", "arguments": ""}


def output(identity: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": identity, "output": "x"}


@pytest.mark.parametrize(
    "items",
    [
        [
            USER,
            reference("rs_1"),
            reference("msg_1"),
            call("a"),
            output("a"),
            reference("rs_2"),
            call("b"),
            output("b"),
        ],
        [USER, reference("rs_1"), reference("fc_1"), reference("fc_2"), output("a"), output("b"), TEXT],
        [USER, reference("rs_1"), reference("msg_1"), USER],
        [USER, {"id": "rs_1"}, {"id": "msg_1"}, USER],
        [USER, reference("rs_1"), {"type": "web_search_call", "id": "ws_1"}, TEXT],
        [USER, reference("msg_1"), USER, reference("msg_2")],
        [USER, call("a"), reference("fc_1"), output("a"), output("b"), USER],
        [USER, reference("fc_1"), reference("stored_1"), USER],  # the output is given by reference, too
        [USER, reference("rs_1"), reference("fc_1")],  # the call waits
        [USER, reference("cmp_1"), USER, reference("stored_1"), USER],
    ],
)
def test_legal(items: list[dict[str, Any]]) -> None:
    assert violations(items, "responses") == []


@pytest.mark.parametrize(
    ("items", "position", "problem"),
    [
        ([USER, reference("rs_1")], 1, "reference to the reasoning 'rs_1' without the item it led to"),
        ([USER, reference("rs_1"), USER], 1, "reasoning 'rs_1'"),
        ([USER, {"id": "rs_1"}, USER], 1, "reasoning 'rs_1'"),
        ([USER, call("a"), reference("rs_1"), output("a")], 2, "reasoning 'rs_1'"),
        # The steps of the first two were taken out, and the references left behind.
        ([USER, reference("rs_1"), reference("rs_2"), reference("rs_3"), call("c"), output("c")], 1, "'rs_1'"),
        ([USER, reference("fc_1"), USER], 1, "reference to the call 'fc_1' without its output"),
        ([USER, reference("ctc_1"), TEXT, USER], 1, "call 'ctc_1'"),
        ([USER, reference("fc_1"), reference("fc_2"), output("a"), USER], 2, "call 'fc_2'"),
        ([USER, call("a"), reference("fc_1"), output("a"), USER], 2, "call 'fc_1'"),
        ([USER, {"type": "item_reference"}, USER], 1, "item_reference without an 'id'"),
    ],
)
def test_illegal(items: list[dict[str, Any]], position: int, problem: str) -> None:
    found = violations(items, "responses")[0]
    assert found.position == position
    assert problem in found.problem
