"""A request's body: read as far as needed, and put together again from the very bytes it came in.

Only new messages are decoded; of all others it is enough that their bytes are those of the last request. What is
kept goes up in the agent's own spelling.
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
"""The values of a JSON object as they were spelled, by name."""

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
_anything = msgspec.json.Decoder()


def read_fields(body: bytes) -> Fields | None:
    """The fields of a JSON object; None for anything else."""
    try:
        return {name: bytes(value) for name, value in _object.decode(body).items()}
    except (msgspec.MsgspecError, RecursionError):
        # Half a surrogate pair, as JavaScript writes it when it cuts a text, is no error to Python's own parser.
        content = _lenient(body)
        return {name: spell(value) for name, value in content.items()} if isinstance(content, dict) else None


def read_list(value: bytes) -> list[bytes] | None:
    """The elements of a JSON array, as they were spelled; None for anything else."""
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
    """A value that is needed as such; None where there is none."""
    if value is None:
        return None
    try:
        return _anything.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass  # Python's own parser takes more
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or all too many brackets
        raise MessageError("its JSON cannot be read") from error


def spell(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Reading(NamedTuple):
    """The messages of one request, with their bytes."""

    messages: list[Message]
    spelled: list[bytes]
    new: int = 0
    """Memory that those take which the last one did not have."""
    size: int = 0
    """Memory that all of them take."""

    def spell(self, view: Sequence[Any]) -> list[bytes] | None:
        """The bytes of a view of them; None when it is all of them."""
        if len(view) == len(self.messages) and all(map(is_, view, self.messages)):
            return None
        return [message.json for message in view]


class Known:
    """The last request of a conversation that was read, to read the next one by."""

    def __init__(self) -> None:
        self._last = Reading([], [])

    def read(self, spelled: list[bytes]) -> Reading:
        """The messages with these bytes: the objects of last time where the bytes are the same."""
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
    """How many elements the two share at the beginning."""
    if after[: len(before)] == before:  # the usual case, and quick where they are the very same objects
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
