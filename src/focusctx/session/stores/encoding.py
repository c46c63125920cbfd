"""Encode records as JSON and back, without losing any character or kind of number.

All stores use it, also the one in memory: the archive holds copies, so an agent that edits its messages later does not
edit the archive. A message parsed from JSON is stored in its original bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property, lru_cache
from typing import Any

from ...errors import StoreError
from ...types import Message
from ..store import Archived, Spelled, StoredEvent

_EVENT = tuple(field.name for field in fields(StoredEvent))
_ARCHIVED = tuple(field.name for field in fields(Archived))


def pack(event: StoredEvent) -> bytes:
    return _bytes(_encode({name: getattr(event, name) for name in _EVENT}))


def unpack(data: bytes) -> StoredEvent:
    """Decode an event, ignoring fields that only another version has."""
    try:
        values = {name: value for name, value in _decode(data).items() if name in _EVENT}
        lists = {name: tuple(values.get(name, ())) for name in ("dropped", "skeletons")}
        return StoredEvent(**{**values, **lists})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(f"a stored event cannot be read: {error!r}") from error


class Originals(tuple[Archived, ...]):
    """The originals of an event, which can be packed before it is certain that the event will happen."""

    @cached_property
    def packed(self) -> bytes:
        return _pack_all(self)


def pack_all(spans: Sequence[Archived]) -> bytes:
    """Encode the originals of an event by column: the keys of all spans, their numbers and so on, then the messages.

    An event may drop a hundred spans at once; encoding each by itself takes longer.
    """
    return spans.packed if isinstance(spans, Originals) else _pack_all(spans)


def _pack_all(spans: Sequence[Archived]) -> bytes:
    columns = {name: [getattr(span, name) for span in spans] for name in _ARCHIVED if name not in ("messages", "event")}
    messages = b",".join(b"[" + b",".join(_spelled(span)) + b"]" for span in spans)
    return _bytes(_encode({**columns, "messages": []})[:-2]) + messages + b"]}"


def unpack_all(data: bytes, event: str) -> list[Archived]:
    """Decode the originals stored with the event of that key."""
    try:
        columns = _decode(data)
        messages = columns["messages"]
        if not messages:
            return []
        columns |= {"messages": map(tuple, messages), "event": [event] * len(messages)}
        return [Archived(*row) for row in zip(*(columns[name] for name in _ARCHIVED), strict=True)]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StoreError(f"stored originals cannot be read: {error!r}") from error


@lru_cache(maxsize=1024)
def scope(tenant: str) -> str:
    """Return the tenant's hash, used in files and on servers: always short, and reveals no name or key."""
    return hashlib.blake2b(tenant.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _spelled(span: Archived) -> list[bytes]:
    try:
        return [_message(message) for message in span.messages]
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{span.key} cannot be stored as JSON: {error}") from error


def _message(message: Message) -> bytes:
    return message.json if isinstance(message, Spelled) else _bytes(_encode(message))


def _bytes(text: str) -> bytes:
    # A model may emit half a surrogate pair; strict UTF-8 would refuse it.
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> Any:
    return json.loads(data.decode("utf-8", "surrogatepass"))


def _plain(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode
