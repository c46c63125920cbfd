"""Bodies that grew: an agent's next request begins with the bytes of its last one, and only the rest is read.

The last request ended a message at some byte. Where the next one has the same bytes up to there, its parser would
stand at the same place; what follows is more messages, the end of the list and the fields behind it.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from .body import Fields, read_fields, read_list, spell, write_list

_HEAD = 128
"""Bytes at the beginning by which candidates are found."""
_MOST = 64
"""Candidates with the same head: conversations of one agent."""
_MOST_HEADS = 64
_MOST_BYTES = 64 * 1024 * 1024

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Body:
    """A request with a history in it."""

    fields: Fields
    """In their order; the history's own place is empty until somebody fills it."""
    spelled: list[bytes]
    """The messages, as they were spelled."""
    start: bytes = b""
    """The body up to the end of the last message; empty where it cannot be told."""
    field: str = ""
    before: int = 0
    """How many fields stand before the history."""

    def whole(self) -> Fields:
        return {**self.fields, self.field: write_list(self.spelled)}


class Bodies:
    """The requests seen last, to read the next ones by."""

    def __init__(self) -> None:
        self._recent: dict[tuple[str, bytes], list[Body]] = {}
        self._held = 0

    def read(self, body: bytes, field: str) -> Body | Fields | None:
        """The request; its fields where there is no list of that name, None where it is no JSON object."""
        head = field, body[:_HEAD]
        last = next((old for old in self._recent.get(head, ()) if body.startswith(old.start)), None)
        grown = _grown(last, body, field) if last else None
        read = grown or _whole(body, field)
        if isinstance(read, Body) and read.start:
            self._remember(head, read, last)
        return read

    def _remember(self, head: tuple[str, bytes], body: Body, last: Body | None) -> None:
        known = self._recent.setdefault(head, [])
        if last is not None:
            known.remove(last)
            self._held -= len(last.start)
        known.insert(0, body)
        self._held += len(body.start)
        if len(known) > _MOST:
            self._held -= len(known.pop().start)
        while len(self._recent) > _MOST_HEADS or self._held > _MOST_BYTES:
            oldest = next(iter(self._recent))
            self._held -= sum(len(old.start) for old in self._recent.pop(oldest))


def _grown(last: Body, body: bytes, field: str) -> Body | None:
    rest = body[len(last.start) :].lstrip(b" \t\r\n")
    if rest[:1] == b",":
        rest = rest[1:]
    elif rest[:1] != b"]":
        return None
    begins = len(body) - len(rest)
    name = spell(field)
    try:
        after = _object.decode(b"{" + name + b":[" + rest)
        value = bytes(after[field])
        new = [bytes(message) for message in _array.decode(value)]
    except (msgspec.MsgspecError, RecursionError, KeyError):
        return None
    if name in rest[len(value) - 1 :]:  # perhaps the same name a second time: to be read as all parsers read it
        return None
    fields = {name: last.fields[name] for name in list(last.fields)[: last.before]}
    fields |= {name: bytes(value) for name, value in after.items()}
    fields[field] = b""
    start = body[: begins + len(value[1:-1].rstrip(b" \t\r\n"))] if new else last.start
    return Body(fields, last.spelled + new, start, field, last.before)


def _whole(body: bytes, field: str) -> Body | Fields | None:
    fields = read_fields(body)
    if fields is None or field not in fields:
        return fields
    value = fields[field]
    spelled = read_list(value)
    if spelled is None:
        return fields
    place = body.find(value)
    can_grow = spelled and place > 0 and body.count(spell(field)) == 1
    start = body[: place + len(value[:-1].rstrip(b" \t\r\n"))] if can_grow else b""
    return Body({**fields, field: b""}, spelled, start, field, list(fields).index(field))
