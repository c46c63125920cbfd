"""Cache marks: agents move them at every step, and a message stays the same with or without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def unmarked(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message without cache marks, and with a lone text block as plain text.

    Agents wrap text in a block to mark it. Only places where marks are allowed are changed: a tool may have an argument
    of that name.
    """
    content = holder.get("content")
    if isinstance(content, list | tuple):
        content = [unmarked(block) if isinstance(block, Mapping) else block for block in content]
        if len(content) == 1 and isinstance(content[0], Mapping) and _is_plain_text(content[0]):
            content = content[0]["text"]
        holder = {**holder, "content": content}
    return {key: value for key, value in holder.items() if key != "cache_control"}


def _is_plain_text(block: Mapping[str, Any]) -> bool:
    return block.keys() == {"type", "text"} and block["type"] == "text"
