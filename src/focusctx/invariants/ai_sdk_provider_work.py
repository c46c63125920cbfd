"""AI SDK: results of tools that the provider runs, and answers to requests for approval, come after what they answer.

The provider may answer its own calls some turns later, or never.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from ..wire.part import typed_blocks
from .rule import Violation


def ai_sdk_provider_work_has_its_beginning(messages: Sequence[Message]) -> Iterator[Violation]:
    called: set[str] = set()
    asked: set[str] = set()
    for position, message in enumerate(messages):
        by_model = message.get("role") == "assistant"
        for kind, part in typed_blocks(message):
            call, approval = str(part.get("toolCallId")), str(part.get("approvalId"))
            if kind == "tool-call":
                called.add(call)
            elif kind == "tool-approval-request":
                asked.add(approval)
            elif kind == "tool-result" and by_model and call not in called:
                yield Violation(position, f"result for {call!r}, which no call before asked for")
            elif kind == "tool-approval-response" and approval not in asked:
                yield Violation(position, f"answer to {approval!r}, which no request for approval before has")
