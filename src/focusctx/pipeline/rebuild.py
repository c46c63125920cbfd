"""Step 7, rebuild: the message list again, from whole spans in their order.

Every message that stays is the very object that came in. Two kinds of copies are made, both told apart by
`owners`: an Anthropic user message that loses its tool results but keeps the user's words, and, in a skeleton,
a tool result whose text became a placeholder.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias

from ..types import History, Message, Owner
from ..wire import Wire, wire_named

Dropped: TypeAlias = Literal["remove", "skeleton"]


def rebuild(history: History, kept: Collection[int], dropped: Dropped = "remove") -> list[Message]:
    """The messages, with the spans that are not kept taken out or reduced to skeletons."""
    stays = frozenset(kept) | {0}
    wire = wire_named(history.format) if dropped == "skeleton" else None
    whole = zip(history.messages, history.owners, strict=True)
    return [part for message, owner in whole if (part := _remaining(message, owner, stays, wire)) is not None]


def _remaining(message: Message, owner: Owner, stays: frozenset[int], wire: Wire | None) -> Message | None:
    """What is left of one message; with a wire format, a placeholder is left of its observation."""
    if isinstance(owner, int):
        if owner in stays:
            return message
        return wire.blank(message, None) if wire else None
    if stays.issuperset(owner):
        return message
    gone = frozenset(number for number, its_owner in enumerate(owner) if its_owner not in stays)
    if wire:
        return wire.blank(message, gone)
    blocks = [block for number, block in enumerate(message["content"]) if number not in gone]
    return {**message, "content": blocks} if blocks else None
