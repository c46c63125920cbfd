"""How records become bytes and come back the same: JSON that keeps every character and every kind of number.

All stores use it, the one in memory too: what is archived is a copy, so an agent that edits its messages later
does not edit the archive.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

from ...errors import StoreError
from ..store import Archived, StoredEvent

_Record = TypeVar("_Record", Archived, StoredEvent)


def pack(record: Archived | StoredEvent) -> bytes:
    content = {field.name: getattr(record, field.name) for field in fields(record)}
    try:
        text = _encode(content)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{record.key} cannot be stored as JSON: {error}") from error
    # A model may emit half a surrogate pair; strict UTF-8 would refuse it.
    return text.encode("utf-8", "surrogatepass")


def unpack(kind: type[_Record], data: bytes) -> _Record:
    """The record that was packed. Fields only a newer version knows are left out."""
    try:
        content = json.loads(data.decode("utf-8", "surrogatepass"))
        values: dict[str, Any] = {field.name: content[field.name] for field in fields(kind)}
        values.update((name, tuple(value)) for name, value in values.items() if isinstance(value, list))
        return kind(**values)
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"a stored {kind.__name__} cannot be read: {error!r}") from error


@lru_cache(maxsize=1024)
def scope(tenant: str) -> str:
    """What stands for the tenant in files and on servers: always short, and it gives no name or key away."""
    return hashlib.blake2b(tenant.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _plain(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode
