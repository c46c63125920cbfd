"""Anthropic: a system message among the others comes after the user's turn and before the model's, or last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from ..wire.part import typed_blocks
from .rule import Violation


def anthropic_system_messages_stand_between_turns(messages: Sequence[Message]) -> Iterator[Violation]:
    for position, message in enumerate(messages):
        if message.get("role") != "system":
            continue
        before = messages[position - 1] if position else {}
        if before.get("role") != "user" and not _ends_in_server_tool_use(before):
            yield Violation(position, "a system message must follow a user message")
        after = messages[position + 1 : position + 2]
        if after and after[0].get("role") != "assistant":
            yield Violation(position, "a system message must be last or be followed by an assistant message")


def _ends_in_server_tool_use(message: Message) -> bool:
    kinds = [kind for kind, _ in typed_blocks(message)]
    return message.get("role") == "assistant" and kinds[-1:] == ["server_tool_use"]
