"""Chat Completions: calls and results pair within their turn."""

import pytest

from focusctx.invariants import violations
from helpers.histories import Messages, call, run, step

USER = {"role": "user", "content": "x"}
TEXT = {"role": "assistant", "content": "x"}
TURN = {"role": "assistant", "tool_calls": [call(1), call(2)]}
FIRST = {"role": "tool", "tool_call_id": "call_1", "content": "x"}
SECOND = {"role": "tool", "tool_call_id": "call_2", "content": "x"}
LEGACY = {"role": "assistant", "function_call": {"name": "look", "arguments": ""}}
LEGACY_RESULT = {"role": "function", "name": "look", "content": "x"}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        run(3),
        [TURN, FIRST, SECOND, USER],
        [TURN, SECOND, FIRST, TEXT],
        [USER, TURN],  # the newest calls may wait …
        [USER, TURN, FIRST],  # … or some of them
        [*step(1), *step(1)],  # ids are used again
        [LEGACY, LEGACY_RESULT, TEXT],
        [TURN, FIRST, SECOND, {"role": "exit", "content": "done"}],
        [TURN, FIRST, {"role": "note", "content": "a recorder's own"}, SECOND],
    ],
)
def test_legal(messages: Messages) -> None:
    assert violations(messages, "chat_completions") == []


@pytest.mark.parametrize(
    ("messages", "position"),
    [
        ([USER, FIRST], 1),
        ([TURN, FIRST, USER], 0),
        ([TURN, FIRST, TEXT], 0),
        ([TURN, USER, FIRST, SECOND], 0),
        ([TURN, FIRST, SECOND, SECOND], 3),
        ([TURN, FIRST, SECOND, USER, SECOND], 4),
        ([{"role": "assistant", "tool_calls": [call(1)]}, SECOND], 1),
        ([TURN, FIRST, {"role": "system", "content": "x"}, SECOND], 0),
        ([LEGACY, USER], 0),
        ([USER, LEGACY_RESULT], 1),
        ([LEGACY, {**LEGACY_RESULT, "name": "find"}], 1),
    ],
)
def test_illegal(messages: Messages, position: int) -> None:
    assert violations(messages, "chat_completions")[0].position == position


def test_every_missing_result_is_reported_with_its_call() -> None:
    found = violations([TURN, USER], "chat_completions")
    assert [str(each) for each in found] == [
        "message 0: tool call 'call_1' has no result before message 1",
        "message 0: tool call 'call_2' has no result before message 1",
    ]
