"""Server-sent events and their JSON, as providers send them.

A stream of bytes is split into events, each with exactly the bytes that were sent. In their JSON, values of an
unexpected type are ignored.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

_END = re.compile(rb"\n\n")
_ANY_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n")
_LINE = re.compile(rb"\r\n|\n|\r")
_LONGEST_END = 4
_ENDINGS = (b"\n\n", b"\r\n\r\n")


class Splitter:
    """Splits a stream that arrives in pieces of any size."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def passes(self, chunk: bytes) -> bool:
        """True if the chunk consists of whole events, as it does when a provider sends them one by one."""
        return not self._begun and chunk.endswith(_ENDINGS)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the events that this piece completes."""
        searched = max(0, len(self._begun) - _LONGEST_END + 1)
        self._begun += chunk
        pattern = _ANY_END if b"\r" in self._begun else _END  # `_END` is enough for almost all streams, and much faster
        events, start = [], 0
        for end in pattern.finditer(self._begun, searched):
            events.append(bytes(self._begun[start : end.end()]))
            start = end.end()
        del self._begun[:start]
        return events

    def rest(self) -> bytes:
        """Return the unfinished event, and forget it."""
        rest = bytes(self._begun)
        self._begun.clear()
        return rest


def split(stream: bytes) -> list[bytes]:
    """Return all events of a stream, including an unfinished one at the end."""
    splitter = Splitter()
    events = splitter.feed(stream)
    rest = splitter.rest()
    return [*events, rest] if rest else events


def payload(event: bytes) -> Json | None:
    """Return the JSON object that an event carries; None if it carries anything else."""
    return read_object(b"\n".join(_data(line) for line in _LINE.split(event) if line.startswith(b"data:")))


def with_payload(event: bytes, data: Json) -> bytes:
    """Return the event with other data, keeping its name and its line ends."""
    newline = b"\r\n" if b"\r\n" in event else b"\n"
    others = [line for line in _LINE.split(event) if line and not line.startswith(b"data:")]
    return newline.join([*others, b"data: " + encode(data), b"", b""])


def event_of(data: Json, *, named: bool) -> bytes:
    """Build an event. If it is `named`, its name is the `type` of its data."""
    name = f"event: {data['type']}\n".encode() if named else b""
    return name + b"data: " + encode(data) + b"\n\n"


def _data(line: bytes) -> bytes:
    return line[5:].removeprefix(b" ")


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


def encode(data: Json) -> bytes:
    """Encode JSON in ASCII: half a surrogate pair, which is common in streams, has no other spelling."""
    return json.dumps(data, separators=(",", ":")).encode()
