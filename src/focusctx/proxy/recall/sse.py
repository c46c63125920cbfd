"""Server-sent events: a stream of bytes cut into events, each of them the very bytes it came in."""

from __future__ import annotations

import re

from .loose import Json, read_object, spell

_END = re.compile(rb"\n\n")
_ANY_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n")
_LINE = re.compile(rb"\r\n|\n|\r")
_LONGEST_END = 4
_ENDINGS = (b"\n\n", b"\r\n\r\n")


class Splitter:
    """Takes a stream in pieces that break anywhere."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def passes(self, chunk: bytes) -> bool:
        """Whether the chunk consists of whole events, as it does when a provider sends them one by one."""
        return not self._begun and chunk.endswith(_ENDINGS)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that are complete with this piece."""
        searched = max(0, len(self._begun) - _LONGEST_END + 1)
        self._begun += chunk
        pattern = _ANY_END if b"\r" in self._begun else _END  # the one that almost all streams need is much faster
        events, start = [], 0
        for end in pattern.finditer(self._begun, searched):
            events.append(bytes(self._begun[start : end.end()]))
            start = end.end()
        del self._begun[:start]
        return events

    def rest(self) -> bytes:
        """What was begun and not ended; it is forgotten here."""
        rest = bytes(self._begun)
        self._begun.clear()
        return rest


def split(stream: bytes) -> list[bytes]:
    """All events of a stream, an unfinished one at the end included."""
    splitter = Splitter()
    events = splitter.feed(stream)
    rest = splitter.rest()
    return [*events, rest] if rest else events


def payload(event: bytes) -> Json | None:
    """The JSON object an event carries; None where it carries anything else."""
    return read_object(b"\n".join(_data(line) for line in _LINE.split(event) if line.startswith(b"data:")))


def with_payload(event: bytes, data: Json) -> bytes:
    """The same event, its name and its line ends included, with other data."""
    newline = b"\r\n" if b"\r\n" in event else b"\n"
    others = [line for line in _LINE.split(event) if line and not line.startswith(b"data:")]
    return newline.join([*others, b"data: " + spell(data), b"", b""])


def event_of(data: Json, *, named: bool) -> bytes:
    """A new event; its name, where it has one, is the type of what it carries."""
    name = f"event: {data['type']}\n".encode() if named else b""
    return name + b"data: " + spell(data) + b"\n\n"


def _data(line: bytes) -> bytes:
    return line[5:].removeprefix(b" ")
