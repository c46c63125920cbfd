"""Server-sent events: split a stream of bytes into events, each with exactly the bytes that were sent."""

from __future__ import annotations

import re

from .loose import Json, read_object, spell

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
    return newline.join([*others, b"data: " + spell(data), b"", b""])


def event_of(data: Json, *, named: bool) -> bytes:
    """Build an event. If it is `named`, its name is the `type` of its data."""
    name = f"event: {data['type']}\n".encode() if named else b""
    return name + b"data: " + spell(data) + b"\n\n"


def _data(line: bytes) -> bytes:
    return line[5:].removeprefix(b" ")
