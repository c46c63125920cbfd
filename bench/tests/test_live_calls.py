"""Which calls change something, and which were made again."""

import json
from typing import Any

import pytest

from focusctx_bench.live import Call, calls_of, repeated


def turn(number: int, name: str, arguments: dict[str, Any], result: str | None = "done") -> list[dict[str, Any]]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    answer = [] if result is None else [{"role": "tool", "tool_call_id": f"c{number}", "content": result}]
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, *answer]


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        ("mail_read", True), ("mail_list", True), ("mail_sent", True), ("mail_send", False), ("login", True),
        ("get_order_details", True), ("find_user_id_by_email", True), ("cancel_pending_order", False),
        ("modify_user_address", False), ("desk_approval", False), ("files_write", False), ("searchWeb", True),
        ("updateList", False), ("frobnicate", False), ("transfer_to_human_agents", False), ("calendar_add", False),
    ],
)  # fmt: skip
def test_a_tool_reads_if_its_name_says_so(name: str, is_read: bool) -> None:
    assert Call(0, name, "{}", None).is_read == is_read


def test_a_call_is_repeated_if_it_had_succeeded_with_equal_arguments() -> None:
    messages = [
        *turn(1, "pay", {"to": "a", "amount": 1}),
        *turn(2, "pay", {"amount": 1, "to": "a"}),
        *turn(3, "pay", {"to": "a", "amount": 2}),
    ]
    assert [(again.turn, [one.turn for one in before]) for again, before in repeated(calls_of(messages))] == [(2, [0])]


@pytest.mark.parametrize(
    "failure", ["Error: no token.", '{"error": "no such order"}', "Traceback (most recent call last)"]
)
def test_trying_again_after_a_failure_is_no_repetition(failure: str) -> None:
    messages = [*turn(1, "pay", {}, failure), *turn(2, "pay", {}), *turn(3, "pay", {}, failure)]
    assert [again.turn for again, _ in repeated(calls_of(messages))] == [4], "also if the repetition failed"


def test_a_call_without_a_result_did_not_succeed() -> None:
    assert not calls_of(turn(1, "pay", {}, None))[0].succeeded
    assert calls_of([{"role": "user", "content": "x"}, *turn(1, "pay", {})])[0].succeeded
