"""Anthropic: a server tool's use and its result are in the same assistant turn, the result after the use.

The turn lasts until the user speaks: results of the agent's own tools do not end it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from ..wire.part import typed_blocks
from .rule import Violation


def anthropic_server_uses_and_results_pair(messages: Sequence[Message]) -> Iterator[Violation]:
    waiting: dict[str, int] = {}
    for position, message in enumerate(messages):
        if message.get("role") == "user" and _has_words(message):
            for identity, asked_at in waiting.items():
                yield Violation(asked_at, f"server tool use {identity!r} has no result before message {position}")
            waiting = {}
        if message.get("role") != "assistant":
            continue
        for kind, block in typed_blocks(message):
            if kind in ("server_tool_use", "mcp_tool_use"):
                waiting[str(block.get("id"))] = position
            elif kind.endswith("tool_result") and waiting.pop(str(block.get("tool_use_id")), None) is None:
                yield Violation(position, f"{kind} for {block.get('tool_use_id')!r}, which this turn did not use")


def _has_words(message: Message) -> bool:
    return isinstance(message.get("content"), str) or any(kind != "tool_result" for kind, _ in typed_blocks(message))
