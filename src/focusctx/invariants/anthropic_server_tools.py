"""Anthropic: a server tool's use and its result stand in the same assistant turn, the result after the use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from .blocks import blocks_in
from .rule import Violation


def anthropic_server_results_have_uses(messages: Sequence[Message]) -> Iterator[Violation]:
    used: set[str] = set()
    for position, message in enumerate(messages):
        if message.get("role") != "assistant":
            used.clear()
            continue
        for block in blocks_in(message):
            if block["type"] in ("server_tool_use", "mcp_tool_use"):
                used.add(str(block.get("id")))
            elif block["type"].endswith("tool_result") and str(block.get("tool_use_id")) not in used:
                yield Violation(
                    position, f"{block['type']} for {block.get('tool_use_id')!r}, which this turn did not use"
                )
