"""Responses: calls and outputs pair by `call_id`, the output after the call; only calls at the end may still wait.

Asynchronous calls may wait while the conversation goes on. Two things may stand in for hidden items: the previous
response (`previous_response_id`) for outputs that come before anything the model made, and references, each for one
call or one output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from ..wire.responses import Stored, is_output, is_reference, item_kind, stored_kind
from .rule import Violation


def responses_calls_and_outputs_pair(messages: Sequence[Message]) -> Iterator[Violation]:
    waiting: dict[str, int] = {}
    seen_calls = False
    unseen_calls = 0
    last_said = last_unseen = -1
    for position, item in enumerate(messages):
        kind = item_kind(item)
        identity = _identity(item, kind)
        if kind == "message":
            last_said = position
            seen_calls = seen_calls or item.get("role") == "assistant"
        elif is_reference(item):
            seen_calls = True
            if stored_kind(item) in (Stored.CALL, Stored.UNKNOWN):
                last_unseen, unseen_calls = position, unseen_calls + 1
            elif stored_kind(item) is Stored.APPROVAL:
                waiting[str(item["id"])] = position
        elif identity is None:
            continue
        elif is_output(item):
            if waiting.pop(identity, None) is not None or not seen_calls:
                continue
            if not unseen_calls:
                yield Violation(position, f"output for {identity!r}, which no earlier item called")
            unseen_calls = max(unseen_calls - 1, 0)
        else:
            waiting[identity] = position
            seen_calls = True
    for identity, asked_at in waiting.items():
        if last_unseen < asked_at < last_said and not messages[asked_at].get("async"):
            yield Violation(asked_at, f"call {identity!r} has no output, and the conversation went on")


def _identity(item: Message, kind: str) -> str | None:
    """Return the id that pairs a call with its output; None for hosted calls, which contain their output."""
    other = {
        "mcp_approval_request": "id",
        "mcp_approval_response": "approval_request_id",
        "local_shell_call_output": "id",
    }
    identity = item.get("call_id", item.get(other.get(kind, "call_id")))
    return None if identity is None else str(identity)
