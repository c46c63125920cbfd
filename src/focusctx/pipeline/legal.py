"""Whether a provider would take a list of messages: by the rules of its format, and of any other it could be in.

A list is sent to whom the caller says, not to whom its format was taken for. So what comes out must be legal in every
format that claims a message of it and in which the whole list was legal.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..invariants import violations
from ..types import Message
from ..wire import claimants


def objection(messages: Sequence[Message], format: str) -> str | None:
    """Why a history is not to be compressed in that format; None if it may be."""
    claims = claimants(messages) if format != "spans" else set()
    if claims and format not in claims:
        return f"the messages are of the format {' or '.join(sorted(claims))}, but were to be read as {format}"
    broken = violations(messages, format)
    return f"the history is one the provider would refuse: {broken[0]}" if broken else None


def refusal(view: Sequence[Message], whole: Sequence[Message], format: str) -> str | None:
    """Why a provider would refuse `view`, which was made of `whole`; None if it would not."""
    others = claimants(whole) - {format} if format != "spans" else set()
    for name in (format, *sorted(others)):
        broken = violations(view, name)
        if broken and (name == format or not violations(whole, name)):
            return str(broken[0])
    return None
