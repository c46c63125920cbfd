"""Anthropic: a server tool's use and its result are in the same assistant turn, the result after the use.

The turn lasts until the user speaks: results of the agent's own tools do not end it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from .blocks import blocks_in
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
        for block in blocks_in(message):
            if block["type"] in ("server_tool_use", "mcp_tool_use"):
                waiting[str(block.get("id"))] = position
            elif block["type"].endswith("tool_result") and waiting.pop(str(block.get("tool_use_id")), None) is None:
                yield Violation(
                    position, f"{block['type']} for {block.get('tool_use_id')!r}, which this turn did not use"
                )


def _has_words(message: Message) -> bool:
    return isinstance(message.get("content"), str) or any(
        block["type"] != "tool_result" for block in blocks_in(message)
    )
