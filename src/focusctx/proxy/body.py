"""A request's body: parsed only as far as needed, and rebuilt from the exact bytes that the agent sent.

Only new messages are decoded; for the others it is enough that their bytes equal those of the last request. Messages
that are kept are sent with the agent's own bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import is_
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ..errors import MessageError
from ..session.store import Spelled
from ..types import Message
from .limits import weight

Fields: TypeAlias = dict[str, bytes]
"""The values of a JSON object by name, each as the JSON bytes that were sent."""

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
_anything = msgspec.json.Decoder()


def read_fields(body: bytes) -> Fields | None:
    """Return the fields of a JSON object; None for anything else."""
    try:
        return {name: bytes(value) for name, value in _object.decode(body).items()}
    except (msgspec.MsgspecError, RecursionError):
        # Python's own parser accepts half a surrogate pair, which JavaScript writes when it cuts a text.
        content = _lenient(body)
        return {name: spell(value) for name, value in content.items()} if isinstance(content, dict) else None


def read_list(value: bytes) -> list[bytes] | None:
    """Return the elements of a JSON array, each as the bytes that were sent; None for anything else."""
    try:
        return [bytes(element) for element in _array.decode(value)]
    except (msgspec.MsgspecError, RecursionError):
        content = _lenient(value)
        return list(map(spell, content)) if isinstance(content, list) else None


def write_fields(fields: Fields) -> bytes:
    return b"{" + b",".join(spell(name) + b":" + value for name, value in fields.items()) + b"}"


def write_list(elements: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(elements) + b"]"


def read(value: bytes | None) -> Any:
    """Decode a JSON value; None if there is none. Raises `MessageError` if it cannot be decoded."""
    if value is None:
        return None
    try:
        return _anything.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass  # Python's own parser accepts more
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, or brackets nested too deep
        raise MessageError("its JSON cannot be read") from error


def spell(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Reading(NamedTuple):
    """The messages of one request, with their bytes."""

    messages: list[Message]
    spelled: list[bytes]
    new: int = 0
    """Bytes of memory for the messages that the last request did not have."""
    size: int = 0
    """Bytes of memory for all messages."""

    def spell(self, view: Sequence[Any]) -> list[bytes] | None:
        """Return the bytes of each message in `view`; None if the view is all messages, unchanged."""
        if len(view) == len(self.messages) and all(map(is_, view, self.messages)):
            return None
        return [message.json for message in view]


class Known:
    """Keeps the last request of a conversation, so that only new messages of the next one are decoded."""

    def __init__(self) -> None:
        self._last = Reading([], [])

    def read(self, spelled: list[bytes]) -> Reading:
        """Return the messages with these bytes, reusing the last request's objects for the beginning they share."""
        last = self._last
        common = _common(last.spelled, spelled)
        new = spelled[common:]
        more = weight(new)
        size = more + (last.size if common == len(last.spelled) else weight(spelled[:common]))
        self._last = Reading(last.messages[:common] + list(map(_message, new)), spelled, more, size)
        return self._last


def _message(spelled: bytes) -> Any:
    message = read(spelled)
    return Spelled(message, spelled) if isinstance(message, dict) else message


def _common(before: list[bytes], after: list[bytes]) -> int:
    """Return how many elements the two share at the beginning."""
    if after[: len(before)] == before:  # the usual case, and fast if they are the same objects
        return len(before)
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old != new:
            return place
    return min(len(before), len(after))


def _lenient(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
