"""Step 7, rebuild: make the message list again, from whole spans and skeletons in order.

Every message that stays is the same object that came in. Two kinds are copied, according to `owners`: an Anthropic user
message that loses its tool results but keeps the user's words, and, in a skeleton, a tool result whose text became a
placeholder.
"""

from __future__ import annotations

from collections.abc import Collection

from ..types import History, Message, Owner
from ..wire import Wire, wire_named


def rebuild(history: History, kept: Collection[int], skeletons: Collection[int] = ()) -> list[Message]:
    """Return the messages, with spans that are not kept reduced to skeletons or removed."""
    whole, outlined = frozenset(kept) | {0}, frozenset(skeletons)
    wire = wire_named(history.format) if outlined else None
    owned = zip(history.messages, history.owners, strict=True)
    return [left for message, owner in owned if (left := _remaining(message, owner, whole, outlined, wire)) is not None]


def _remaining(
    message: Message, owner: Owner, whole: frozenset[int], outlined: frozenset[int], wire: Wire | None
) -> Message | None:
    """Return the rest of one message, None if nothing stays."""
    if isinstance(owner, int):
        if owner in whole:
            return message
        return wire.blank(message, None) if wire and owner in outlined else None
    if whole.issuperset(owner):
        return message
    if wire and (blank := frozenset(number for number, one in enumerate(owner) if one in outlined - whole)):
        message = wire.blank(message, blank)
    blocks = [block for block, one in zip(message["content"], owner, strict=True) if one in whole or one in outlined]
    return {**message, "content": blocks} if blocks else None
