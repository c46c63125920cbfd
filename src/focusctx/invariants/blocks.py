"""Helpers for rules: the typed blocks of a message, and the kind of a Responses item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def blocks_in(holder: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the typed blocks of a message or tool result; none if the content is plain text."""
    content = holder.get("content")
    if isinstance(content, list | tuple):
        yield from (block for block in content if isinstance(block, Mapping) and isinstance(block.get("type"), str))


def item_kind(item: Mapping[str, Any]) -> str:
    """Return the type of a Responses item; messages and references may omit it."""
    return str(item.get("type") or ("message" if "role" in item else "item_reference"))


def is_output(item: Mapping[str, Any]) -> bool:
    """True for a Responses item with which the agent answers a call."""
    kind = item_kind(item)
    return kind.endswith("_output") or kind == "mcp_approval_response"


def made_by_model(item: Mapping[str, Any]) -> bool:
    """True for a Responses item that the model or the provider made."""
    return item.get("role") == "assistant" if item_kind(item) == "message" else not is_output(item)
