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
from .limits import MESSAGES, has_too_many_values, weight

_HEAD = 128
"""Bytes at the beginning by which candidates are found."""
_TAIL = 32
"""Bytes at the end of a candidate that are looked at first: conversations of one agent begin alike for a long way."""
_MOST = 64
"""Candidates with the same head: conversations of one agent."""
_MOST_HEADS = 64
_MOST_BYTES = 128 * 1024 * 1024
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

    def read(self, body: bytes, field: str, tenant: str = "") -> Body | Fields | None:
        """Read a request, by the tenant's last one where it goes on from it, and remember it."""
        found = read_body(body, field, self.take(body, field, tenant))
        self.remember(body, found, tenant)
        return found

    def take(self, body: bytes, field: str, tenant: str) -> Body | None:
        """Hand out the request that this one goes on from, and forget it: `remember` puts the new one in its place."""
        known = self._recent.get((tenant, field, body[:_HEAD]), [])
        for number, (place, tail, old) in enumerate(known):
            if body[place] == tail and body.startswith(old.start):
                del known[number]
                self._held -= _held_by(old)
                return old
        return None

    def remember(self, body: bytes, found: Body | Fields | None, tenant: str) -> None:
        """Keep a request that was read. One that was passed on unread is not kept."""
        if not isinstance(found, Body) or not found.start:
            return
        known = self._recent.setdefault((tenant, found.field, body[:_HEAD]), [])
        size = len(found.start)
        place = slice(max(size - _TAIL, 0), size)
        known.insert(0, (place, found.start[place], found))
        self._held += _held_by(found)
        if len(known) > _MOST:
            self._held -= _held_by(known.pop()[-1])
        while len(self._recent) > _MOST_HEADS or self._held > _MOST_BYTES:
            oldest = next(iter(self._recent))
            self._held -= sum(_held_by(old) for _, _, old in self._recent.pop(oldest))


def read_body(body: bytes, field: str, last: Body | None = None) -> Body | Fields | None:
    """Read a request. Returns its fields where it has no list of that name, None where it is no JSON object or holds
    more than one request may (see `limits`).

    Only what follows `last`, a request that this one begins with, is looked at, unless its end is an unusual one.
    """
    if last is not None and has_too_many_values(body[len(last.start) :]):
        return None
    found = (last and (_longer(last, body) or _ended_otherwise(last, body))) or _whole(body, field)
    return None if isinstance(found, Body) and len(found.spelled) > MESSAGES else found


def _held_by(body: Body) -> int:
    return len(body.start) + weight(body.spelled)


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
    fields = None if has_too_many_values(body) else read_fields(body)
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
