"""Convert SDK objects among the messages to plain messages.

The SDKs' own guides write an agent's loop with `messages.append(response.choices[0].message)` and `"content":
response.content`. An SDK sends the fields that are set in such an object, and these are what is read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def plain_message(message: Any) -> Any:
    """Return the message as plain data: itself, unless it is an SDK object or contains some."""
    if hasattr(message, "model_dump"):
        return as_plain(message)
    if isinstance(message, Mapping):
        for field in ("content", "parts"):
            blocks = message.get(field)
            if isinstance(blocks, list) and any(hasattr(block, "model_dump") for block in blocks):
                return {**message, field: as_plain(blocks)}
    return message


def as_plain(value: Any) -> Any:
    """Return plain data for an SDK object, also inside a list; anything else unchanged."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True)
    return [as_plain(item) for item in value] if isinstance(value, list) else value
