"""Step 7, rebuild: make the message list again, from whole and shortened spans in order, as a provider would take it.

Every message that stays is the same object that came in. Two kinds are copied, according to `owners`: an Anthropic user
message that loses its tool results but keeps the user's words, and messages whose texts are shown in part.

The caller decides which provider gets the list, whatever format was recognised. So a view must be legal in every format
that claims a message of the whole list and in which the whole list was legal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..invariants import violations
from ..types import History, Message, Owner
from ..wire import claimants
from ..wire.part import without_blocks
from .outline import Outlines, Parts, Shortener, joint_records


def rebuild(history: History, kept: Collection[int], shortened: Mapping[int, Parts] | None = None) -> list[Message]:
    """Return the messages of these whole spans and of the shortened ones, and all that belongs to no span."""
    whole = frozenset(kept) | {0}
    outlines = history.outlines or Outlines(history.format, len)
    endings = joint_records(history.spans, kept, shortened or {}, outlines)
    shorteners = {
        span.index: outlines.shortener(span, parts, endings.get(span.index, ""))
        for span in history.spans
        if shortened and (parts := shortened.get(span.index)) is not None
    }
    owned = zip(history.messages, history.owners, strict=True)
    return [left for message, owner in owned if (left := _remaining(message, owner, whole, shorteners)) is not None]


def objection(messages: Sequence[Message], format: str) -> str | None:
    """Return why a history must not be compressed in that format, or None."""
    claims = claimants(messages) if format != "spans" else set()
    if claims and format not in claims:
        return f"the messages are of the format {' or '.join(sorted(claims))}, but were to be read as {format}"
    broken = violations(messages, format)
    return f"the history is one the provider would refuse: {broken[0]}" if broken else None


def refusal(view: Sequence[Message], whole: Sequence[Message], format: str) -> str | None:
    """Return why a provider would refuse `view`, which was made from `whole`, or None."""
    others = claimants(whole) - {format} if format != "spans" else set()
    for name in (format, *sorted(others)):
        broken = violations(view, name)
        if broken and (name == format or not violations(whole, name)):
            return str(broken[0])
    return None


def _remaining(
    message: Message, owner: Owner, whole: frozenset[int], shorteners: Mapping[int, Shortener]
) -> Message | None:
    """Return the rest of one message, None if nothing stays."""
    if isinstance(owner, int):
        if owner in whole:
            return message
        return shorteners[owner].message(message) if owner in shorteners else None
    if whole.issuperset(owner):
        return message
    gone: set[int] = {number for number, one in enumerate(owner) if one not in whole and one not in shorteners}
    for index in sorted(shorteners.keys() & owner):
        own = [number for number, one in enumerate(owner) if one == index]
        message, left_out = shorteners[index].in_place(message, own)
        gone |= left_out
    return without_blocks(message, gone)
