"""Responses: calls and outputs pair by `call_id`, the output after the call.

Only calls at the end may still wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from .rule import Violation


def responses_calls_and_outputs_pair(messages: Sequence[Message]) -> Iterator[Violation]:
    waiting: dict[str, int] = {}
    last_said = -1
    for position, item in enumerate(messages):
        kind = str(item.get("type", "message"))
        if kind == "message":
            last_said = position
        elif kind.endswith("_output") or kind == "mcp_approval_response":
            identity = str(item.get("call_id", item.get("approval_request_id")))
            if waiting.pop(identity, None) is None:
                yield Violation(position, f"output for {identity!r}, which no earlier item called")
        elif "call_id" in item or kind == "mcp_approval_request":
            waiting[str(item.get("call_id", item.get("id")))] = position
    for identity, asked_at in waiting.items():
        if asked_at < last_said:
            yield Violation(asked_at, f"call {identity!r} has no output, and the conversation went on")
