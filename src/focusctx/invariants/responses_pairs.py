"""Responses: calls and outputs pair by `call_id`, the output after the call; only calls at the end may still wait.

Asynchronous calls may wait while the conversation goes on. And two things may take the place of what is not
seen: the response before (`previous_response_id`) for outputs that stand before anything the model made, and
items given by reference only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from .blocks import item_kind
from .rule import Violation


def responses_calls_and_outputs_pair(messages: Sequence[Message]) -> Iterator[Violation]:
    waiting: dict[str, int] = {}
    seen_calls = referred = False
    last_said = last_reference = -1
    for position, item in enumerate(messages):
        kind = item_kind(item)
        identity = _identity(item, kind)
        if kind == "message":
            last_said = position
            seen_calls = seen_calls or item.get("role") == "assistant"
        elif kind == "item_reference":
            last_reference, referred = position, True
        elif identity is None:
            continue
        elif kind.endswith("_output") or kind == "mcp_approval_response":
            if waiting.pop(identity, None) is None and seen_calls and not referred:
                yield Violation(position, f"output for {identity!r}, which no earlier item called")
        else:
            waiting[identity] = position
            seen_calls = True
    for identity, asked_at in waiting.items():
        if last_reference < asked_at < last_said and not messages[asked_at].get("async"):
            yield Violation(asked_at, f"call {identity!r} has no output, and the conversation went on")


def _identity(item: Message, kind: str) -> str | None:
    """What pairs a call with its output; None for hosted calls, which carry their output inside."""
    other = {
        "mcp_approval_request": "id",
        "mcp_approval_response": "approval_request_id",
        "local_shell_call_output": "id",
    }
    identity = item.get("call_id", item.get(other.get(kind, "call_id")))
    return None if identity is None else str(identity)
