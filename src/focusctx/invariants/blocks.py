"""The typed blocks of a message or tool result; none where the content is plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def blocks_in(holder: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    content = holder.get("content")
    if isinstance(content, list | tuple):
        yield from (block for block in content if isinstance(block, Mapping) and isinstance(block.get("type"), str))
