"""JSON that may be anything: what a provider sends is read as far as it is what it should be."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def read_object(text: bytes | str) -> Json | None:
    """A JSON object; None for anything else."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def object_in(holder: Json, key: str) -> Json:
    """The object there, to be changed in place; an empty one where there is none."""
    value = holder.get(key)
    return value if isinstance(value, dict) else {}


def objects_in(holder: Json, key: str) -> list[Json]:
    """The objects in the list there."""
    value = holder.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def spell(data: Json) -> bytes:
    """In ASCII, since half a surrogate pair, of which streams have many, has no other spelling."""
    return json.dumps(data, separators=(",", ":")).encode()
