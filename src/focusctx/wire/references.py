"""References: Responses items that the provider stores, sent by their id alone.

Agents that leave storage on (the AI SDK's OpenAI provider by default) send `{"type": "item_reference", "id": "rs_…"}`
for what the model made earlier. The content is not seen; the prefix of the id says what kind of item it is.
"""

from __future__ import annotations

from enum import Enum

from ..types import Message


class Stored(Enum):
    """The kind of item behind a reference."""

    REASONING = "reasoning"
    MESSAGE = "message"
    HOSTED = "hosted call"
    """The provider ran it and holds its result."""
    APPROVAL = "approval request"
    """Answered under its own id."""
    CALL = "call"
    """Answered by an output whose `call_id` the reference does not show."""
    COMPACTION = "compaction"
    UNKNOWN = "unknown"
    """May be a call, an output or something new: nothing is assumed that could part it from its step."""


_PREFIXES = {
    "rs": Stored.REASONING,
    "msg": Stored.MESSAGE,
    "ws": Stored.HOSTED,
    "fs": Stored.HOSTED,
    "ci": Stored.HOSTED,
    "ig": Stored.HOSTED,
    "mcp": Stored.HOSTED,
    "mcpl": Stored.HOSTED,
    "mcpr": Stored.APPROVAL,
    "fc": Stored.CALL,
    "ctc": Stored.CALL,
    "cmp": Stored.COMPACTION,
}


def is_reference(item: Message) -> bool:
    """True for a reference, with its type or, as the API allows, with its id alone."""
    if item.get("type") is None:
        return isinstance(item.get("id"), str) and item.keys() <= {"id", "type"}
    return bool(item["type"] == "item_reference")


def stored_kind(reference: Message) -> Stored:
    """The kind of item that a reference stands for, as far as its id tells."""
    prefix, separator, _ = str(reference.get("id")).partition("_")
    return _PREFIXES.get(prefix, Stored.UNKNOWN) if separator else Stored.UNKNOWN
