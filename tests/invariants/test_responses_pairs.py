"""Responses: calls and outputs pair by their call id."""

from typing import Any

import pytest

from focusctx.invariants import violations

USER = {"role": "user", "content": "x"}
TEXT = {"role": "assistant", "content": "x"}
REFERENCE = {"type": "item_reference", "id": "fc_1"}
UNKNOWN = {"type": "item_reference", "id": "item_1"}
APPROVAL = {"type": "item_reference", "id": "mcpr_1"}
PROGRAM = {"type": "program", "call_id": "p"}


def call(identity: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": identity, "name": "look", "arguments": ""}


def output(identity: str | None) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": identity, "output": "x"}


ASKED = {"type": "mcp_approval_request", "id": "q"}
ALLOWED = {"type": "mcp_approval_response", "approval_request_id": "q", "approve": True}


@pytest.mark.parametrize(
    "items",
    [
        [USER, call("a"), output("a"), TEXT],
        [call("a"), call("b"), output("b"), output("a"), USER],
        [call("a"), output("a"), call("a"), output("a"), USER],
        [call("a"), call("b"), output("a"), call("c"), output("b"), output("c"), USER],  # an output that came late
        [{**call("a"), "async": True}, USER, TEXT, output("a")],
        [{**call("a"), "async": True}, USER, TEXT],
        [USER, call("a")],
        [USER, call("a"), call("b"), output("b")],
        [{"type": "web_search_call", "id": "w"}, TEXT, USER],
        [{"type": "tool_search_call", "call_id": None}, {"type": "tool_search_output", "call_id": None}, USER],
        [ASKED, ALLOWED, {"type": "mcp_call", "id": "m", "approval_request_id": "q"}, USER],
        [PROGRAM, call("a"), output("a"), {"type": "program_output", "call_id": "p"}, USER],
        [{"type": "local_shell_call", "id": "l", "call_id": "a"}, {"type": "local_shell_call_output", "id": "a"}, USER],
        # The call stands in the response before this request.
        [output("a"), USER, call("b"), output("b"), TEXT],
        [USER, output("a")],
        # The call, or the output, is given by reference.
        [USER, TEXT, REFERENCE, output("a"), USER],
        [USER, TEXT, {"id": "fc_1"}, output("a"), USER],
        [USER, call("a"), UNKNOWN, USER],
        [USER, TEXT, UNKNOWN, output("a"), USER],
        [USER, TEXT, REFERENCE, REFERENCE, output("a"), output("b"), USER],
        [USER, APPROVAL, {**ALLOWED, "approval_request_id": "mcpr_1"}, TEXT],
        [output(None), TEXT, output(None)],
    ],
)
def test_legal(items: list[dict[str, Any]]) -> None:
    assert violations(items, "responses") == []


@pytest.mark.parametrize(
    ("items", "position"),
    [
        ([USER, TEXT, output("a")], 2),
        ([call("a"), output("b")], 1),
        ([call("a"), output("a"), output("a")], 2),
        ([output("a"), call("a"), USER], 1),
        ([USER, call("a"), USER], 1),
        ([USER, call("a"), TEXT, USER], 1),
        ([call("a"), call("b"), output("a"), USER], 1),
        ([USER, ASKED, USER], 1),
        ([TEXT, ALLOWED], 1),
        ([PROGRAM, TEXT], 0),
        ([UNKNOWN, call("a"), USER], 1),
        # One reference stands for one call, and one to a message or to reasoning for none.
        ([USER, UNKNOWN, output("a"), output("b"), USER], 3),
        ([USER, {"type": "item_reference", "id": "msg_1"}, output("a"), USER], 2),
        ([USER, {"type": "item_reference", "id": "msg_1"}, call("a"), USER], 2),
        ([USER, APPROVAL, USER], 1),
        ([TEXT, {"type": "local_shell_call_output", "id": "a"}], 1),
    ],
)
def test_illegal(items: list[dict[str, Any]], position: int) -> None:
    assert violations(items, "responses")[0].position == position
