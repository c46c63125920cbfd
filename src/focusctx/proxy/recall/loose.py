"""Lenient reading of a provider's JSON: values of an unexpected type are ignored."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def read_object(text: bytes | str) -> Json | None:
    """Parse a JSON object; None for anything else."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def object_in(holder: Json, key: str) -> Json:
    """Return the object at `key`, to be changed in place; an empty one if there is none."""
    value = holder.get(key)
    return value if isinstance(value, dict) else {}


def objects_in(holder: Json, key: str) -> list[Json]:
    """Return the objects in the list at `key`."""
    value = holder.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def spell(data: Json) -> bytes:
    """Encode JSON in ASCII: half a surrogate pair, which is common in streams, has no other spelling."""
    return json.dumps(data, separators=(",", ":")).encode()
