"""For frameworks whose messages are lists of parts, of which some may go and others stay.

A tool's result and the user's words can stand in one message. Each becomes a chat message of its own, a piece, that
remembers which parts it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..types import Message
from .plug import places

FORMAT = "chat_completions"


@dataclass(frozen=True, slots=True)
class Piece:
    """Parts of one message that stay or go together, as a chat message."""

    place: int
    """The number of the message."""
    parts: tuple[int, ...]
    """The places of the parts in it."""
    chat: Message


Kept = dict[int | None, dict[int, str | None]]
"""For each message that is to be sent, its parts, each with the text that takes its place, or None.

The line about missing steps has no message: it is the one part of None.
"""


def kept(pieces: Sequence[Piece], view: Sequence[Message]) -> Kept:
    """The messages to send, in order, for a view of the pieces' chat messages."""
    messages: Kept = {}
    for chat, found in zip(view, places([piece.chat for piece in pieces], view), strict=True):
        if found is None:
            messages[None] = {0: str(chat["content"])}
            continue
        piece = pieces[found]
        text = None if chat is piece.chat else str(chat["content"])
        messages.setdefault(piece.place, {}).update(dict.fromkeys(piece.parts, text))
    return {place: dict(sorted(parts.items())) for place, parts in messages.items()}


def is_whole(parts: dict[int, str | None], count: int) -> bool:
    """Return True if a message of `count` parts is sent unchanged."""
    return len(parts) == count and not any(parts.values())
