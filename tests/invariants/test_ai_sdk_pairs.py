"""AI SDK: calls are answered by tool messages right after their turn."""

from typing import Any

import pytest

from focusctx.invariants import violations

Message = dict[str, Any]


def assistant(*ids: str, **more: Any) -> Message:
    calls = [{"type": "tool-call", "toolCallId": identity, "toolName": "look", "input": {}, **more} for identity in ids]
    return {"role": "assistant", "content": [{"type": "text", "text": "x"}, *calls]}


def result(identity: str) -> Message:
    return {"type": "tool-result", "toolCallId": identity, "toolName": "look", "output": {"type": "text", "value": "x"}}


def tool(*ids: str) -> Message:
    return {"role": "tool", "content": [result(identity) for identity in ids]}


WORDS = {"role": "user", "content": "x"}
SERVED = assistant("s", providerExecuted=True)
REQUEST = {"type": "tool-approval-request", "approvalId": "p", "toolCallId": "a"}
APPROVED = {"role": "tool", "content": [{"type": "tool-approval-response", "approvalId": "p", "approved": True}]}
ASKED = {"role": "assistant", "content": [*assistant("a")["content"], REQUEST]}


@pytest.mark.parametrize(
    "messages",
    [
        [WORDS, assistant("a"), tool("a"), assistant()],
        [WORDS, assistant("a", "b"), tool("b", "a"), WORDS],
        [WORDS, assistant("a", "b"), tool("a"), tool("b"), assistant()],
        [WORDS, assistant("a"), assistant("b"), tool("a", "b"), WORDS],
        [WORDS, assistant("a")],
        [WORDS, assistant("a", "b"), tool("a")],
        [WORDS, {"role": "assistant", "content": "x"}, WORDS],
        [WORDS, {"role": "assistant", "content": [*SERVED["content"], result("s")]}, WORDS],
        [WORDS, SERVED, {"role": "assistant", "content": [result("s")]}],
        [WORDS, SERVED, WORDS],
        [WORDS, ASKED, APPROVED, tool("a"), assistant()],
    ],
)
def test_legal(messages: list[Message]) -> None:
    assert violations(messages, "ai_sdk") == []


@pytest.mark.parametrize(
    ("messages", "position"),
    [
        ([WORDS, tool("a")], 1),
        ([WORDS, assistant("a"), WORDS], 1),
        ([WORDS, assistant("a", "b"), tool("a"), assistant()], 1),
        ([WORDS, assistant("a"), {"role": "system", "content": "x"}], 1),
        ([WORDS, assistant("a"), tool("a"), tool("a")], 3),
        ([WORDS, assistant("a"), tool("b")], 2),
        ([WORDS, SERVED, tool("s")], 2),
        ([WORDS, {"role": "assistant", "content": [result("s")]}], 1),
        ([WORDS, assistant("a"), APPROVED], 2),
        ([WORDS, ASKED, APPROVED, WORDS], 1),
    ],
)
def test_illegal(messages: list[Message], position: int) -> None:
    assert violations(messages, "ai_sdk")[0].position == position
