"""Spans that must stay because others stay: the reasoning that a step continues, the turns around a system message."""

from __future__ import annotations

from collections.abc import Collection

from ..types import History


def companions_of(history: History, chosen: Collection[int]) -> dict[int, str]:
    """Return the spans that must stay, at least as a record, besides the chosen ones, each with the reason."""
    neighbours = _neighbours(history, chosen) if history.format == "anthropic" else {}
    return {**neighbours, **leaders_of(history, {*chosen, *neighbours})}


def leaders_of(history: History, chosen: Collection[int]) -> dict[int, str]:
    """Return the spans that must stay because a chosen one continues their hidden reasoning."""
    return {
        span.needs: f"holds the reasoning that {span.label} goes on from"
        for span in history.spans
        if span.index in chosen and span.needs is not None and span.needs not in chosen
    }


def _neighbours(history: History, chosen: Collection[int]) -> dict[int, str]:
    """Return the spans that must stay around a system message.

    Anthropic accepts one only between a user's turn and the model's. If dropping would put two system messages
    together, the step before the second stays; if it would put one before the user's words, the step after it stays.
    """
    stays = {0, *chosen}
    found: dict[int, str] = {}
    last, first_gone, last_gone = "", 0, 0  # the last kept role, and the first and last span dropped since
    for message, owner in zip(history.messages, history.owners, strict=True):
        role = message.get("role", "")
        owners = (owner,) if isinstance(owner, int) else owner
        if stays.isdisjoint(owners):
            first_gone, last_gone = first_gone or max(owners), max(owners)
            continue
        if role == "system" and last != "user" and last_gone:
            found[last_gone] = "a system message follows it"
        elif role == "user" and last == "system" and first_gone:
            found[first_gone] = "it answers a system message"
        last, first_gone, last_gone = role, 0, 0
    return found
