"""Responses: a reasoning item comes directly before the item it led to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from ..wire.responses import made_by_model
from .rule import Violation


def responses_reasoning_is_followed(messages: Sequence[Message]) -> Iterator[Violation]:
    for position, item in enumerate(messages):
        if item.get("type") != "reasoning":
            continue
        following = messages[position + 1] if position + 1 < len(messages) else None
        if following is None or not made_by_model(following):
            yield Violation(position, "reasoning item without the item that followed it")
