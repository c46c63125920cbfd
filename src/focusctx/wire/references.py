"""References: Responses items that the provider stores and that are sent by id alone.

Agents that leave storage on (by default the AI SDK's OpenAI provider) send `{"type": "item_reference", "id": "rs_…"}`
for items the model made earlier. Their content is not visible; the prefix of the id tells the kind of item.
"""

from __future__ import annotations

from enum import Enum

from ..types import Message


class Stored(Enum):
    """The kind of item behind a reference."""

    REASONING = "reasoning"
    MESSAGE = "message"
    HOSTED = "hosted call"
    """A call that the provider ran, and whose result it stores."""
    APPROVAL = "approval request"
    """A request that is answered under its own id."""
    CALL = "call"
    """A call answered by an output whose `call_id` the reference does not show."""
    COMPACTION = "compaction"
    UNKNOWN = "unknown"
    """A call, an output or something new: no assumption is made that could separate it from its step."""


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
    """Return the kind of item that a reference points to, as far as its id tells."""
    prefix, separator, _ = str(reference.get("id")).partition("_")
    return _PREFIXES.get(prefix, Stored.UNKNOWN) if separator else Stored.UNKNOWN
