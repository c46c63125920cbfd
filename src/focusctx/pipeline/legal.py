"""Check whether a provider would accept a list of messages.

The rules of its format apply, and of any other format it could be in: the caller decides which provider gets the list,
whatever format was recognised. So a view must be legal in every format that claims a message of the whole list and in
which the whole list was legal.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..invariants import violations
from ..types import Message
from ..wire import claimants


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
