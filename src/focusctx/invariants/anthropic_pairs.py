"""Anthropic: all results of a turn's tool calls are in the user message right after it, and nowhere else.

The API joins consecutive messages of one role, so runs of them are checked as one message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from ..wire.part import typed_blocks
from .rule import Violation


def anthropic_calls_and_results_pair(messages: Sequence[Message]) -> Iterator[Violation]:
    waiting: dict[str, int] = {}
    answering = False
    for position, message in enumerate(messages):
        if message.get("role") == "assistant":
            if answering or not waiting:
                yield from _unanswered(waiting, position)
                waiting, answering = {}, False
            waiting |= {str(block.get("id")): position for kind, block in typed_blocks(message) if kind == "tool_use"}
            continue
        answering = True
        for kind, block in typed_blocks(message):
            if kind == "tool_result" and waiting.pop(str(block.get("tool_use_id")), None) is None:
                yield Violation(
                    position,
                    f"tool_result for {block.get('tool_use_id')!r}, which the turn before did not call",
                )
    if answering:
        yield from _unanswered(waiting, len(messages))


def _unanswered(waiting: dict[str, int], position: int) -> Iterator[Violation]:
    for identity, asked_at in waiting.items():
        yield Violation(asked_at, f"tool_use {identity!r} has no tool_result before message {position}")
