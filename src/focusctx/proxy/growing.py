"""Bodies that grew: an agent's next request begins with the bytes of its last one, and only the rest is read.

The last request ended a message at some byte. Where the next one has the same bytes up to there, its parser would
stand at the same place; what follows is more messages, the end of the list and the fields behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from .body import Fields, read_fields, read_list, spell, write_fields, write_list

_HEAD = 128
"""Bytes at the beginning by which candidates are found."""
_TAIL = 32
"""Bytes at the end of a candidate that are looked at first: conversations of one agent begin alike for a long way."""
_MOST = 64
"""Candidates with the same head: conversations of one agent."""
_MOST_HEADS = 64
_MOST_BYTES = 64 * 1024 * 1024
_SPACE = b" \t\r\n"

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
_colon = re.compile(rb"\s*:\s*")


class Body(NamedTuple):
    """A request with a history in it."""

    field: str
    """The history's name."""
    fields: Fields
    """In their order; the history's own place is empty."""
    spelled: list[bytes]
    """The messages, as they were spelled."""
    start: bytes = b""
    """The body up to the end of the last message; empty where it cannot be told."""
    opened: int = 0
    """How much of that stands before the first message."""
    end: bytes = b""
    """The body from the end of the list on."""

    def holding(self, messages: Sequence[bytes], other: Fields | None = None) -> bytes:
        """The request with these messages in the place of its own, and with other fields where some are given."""
        if self.start and messages and not other:  # all of it is copied once
            pieces = list(messages)
            pieces[0] = self.start[: self.opened] + pieces[0]
            pieces[-1] += self.end
            return b",".join(pieces)
        return write_fields({**self.fields, **(other or {}), self.field: write_list(messages)})


_Candidate: TypeAlias = tuple[slice, bytes, Body]
"""Where the last bytes of its start stand, these bytes, and the body itself."""


class Bodies:
    """The requests seen last, to read the next ones by."""

    def __init__(self) -> None:
        self._recent: dict[tuple[str, str, bytes], list[_Candidate]] = {}
        self._held = 0

    def read(self, body: bytes, field: str, whose: str = "") -> Body | Fields | None:
        """The request; its fields where there is no list of that name, None where it is no JSON object.

        It is held against earlier ones of the same caller only.
        """
        head = whose, field, body[:_HEAD]
        known = self._recent.get(head, [])
        last = None
        for number, (place, tail, old) in enumerate(known):
            if body[place] == tail and body.startswith(old.start):
                last = old
                del known[number]
                self._held -= len(last.start)
                break
        read = (last and (_longer(last, body) or _ended_otherwise(last, body))) or _whole(body, field)
        if isinstance(read, Body) and read.start:
            self._remember(head, read)
        return read

    def _remember(self, head: tuple[str, str, bytes], body: Body) -> None:
        known = self._recent.setdefault(head, [])
        size = len(body.start)
        place = slice(max(size - _TAIL, 0), size)
        known.insert(0, (place, body.start[place], body))
        self._held += size
        if len(known) > _MOST:
            self._held -= len(known.pop()[-1].start)
        while len(self._recent) > _MOST_HEADS or self._held > _MOST_BYTES:
            oldest = next(iter(self._recent))
            self._held -= sum(len(old.start) for _, _, old in self._recent.pop(oldest))


def _longer(last: Body, body: bytes) -> Body | None:
    """The usual case: nothing but messages came."""
    ends = len(body) - len(last.end)
    if ends < len(last.start) or not body.endswith(last.end):
        return None
    between = body[len(last.start) : ends].strip(_SPACE)
    if not between:
        return last
    new = _elements(between[1:]) if between.startswith(b",") else None
    if not new:
        return None
    return Body(
        last.field, last.fields, last.spelled + new, body[:ends].rstrip(_SPACE), opened=last.opened, end=last.end
    )


def _ended_otherwise(last: Body, body: bytes) -> Body | None:
    rest = body[len(last.start) :].lstrip(_SPACE)
    if rest[:1] == b",":
        rest = rest[1:]
    elif rest[:1] != b"]":
        return None
    name = spell(last.field)
    if name in rest:  # perhaps the same name a second time: to be read as all parsers read it
        return None
    try:
        after = _object.decode(b"{" + name + b":[" + rest)
        new = [bytes(message) for message in _array.decode(after[last.field])]
    except (msgspec.MsgspecError, RecursionError):
        return None
    names = list(last.fields)
    fields = {name: last.fields[name] for name in names[: names.index(last.field)]}
    fields |= {name: bytes(value) for name, value in after.items()}
    end = rest[len(fields[last.field]) - 2 :]
    fields[last.field] = b""
    start = body[: len(body) - len(end)].rstrip(_SPACE) if new else last.start
    return Body(last.field, fields, last.spelled + new, start, last.opened, end)


def _whole(body: bytes, field: str) -> Body | Fields | None:
    fields = read_fields(body)
    if fields is None or field not in fields:
        return fields
    value = fields[field]
    spelled = read_list(value)
    if spelled is None:
        return fields
    fields[field] = b""
    place = _place(body, field, value) if spelled else None
    if place is None:
        return Body(field, fields, spelled)
    ends = place + len(value) - 1
    opened = ends - len(value[1:-1].lstrip(_SPACE))
    return Body(field, fields, spelled, body[:ends].rstrip(_SPACE), opened, body[ends:])


def _place(body: bytes, field: str, value: bytes) -> int | None:
    """Where the history stands; None where its name comes twice, or in another spelling."""
    name = spell(field)
    colon = _colon.match(body, body.find(name) + len(name)) if body.count(name) == 1 else None
    return colon.end() if colon and body.startswith(value, colon.end()) else None


def _elements(spelled: bytes) -> list[bytes] | None:
    try:
        return [bytes(element) for element in _array.decode(b"[" + spelled + b"]")]
    except (msgspec.MsgspecError, RecursionError):
        return None
