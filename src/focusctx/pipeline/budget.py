"""Step 2, budget: is compression due, and which spans may no method drop?"""

from __future__ import annotations

from collections.abc import Collection

from ..config import FocusConfig
from ..types import History, PinRule, Span


def over_budget(history: History, config: FocusConfig) -> bool:
    """`|H_t| > δ`."""
    return history.tokens > config.budget


def pinned_spans(history: History, pin: PinRule | None) -> dict[int, str]:
    """The spans that stay whatever the sketches say, each with the reason."""
    pinned = {span.index: reason for span in history.spans if (reason := _reason(span, history, pin))}
    return {**leaders_of(history, pinned.keys()), **pinned}


def leaders_of(history: History, chosen: Collection[int]) -> dict[int, str]:
    """Spans that must stay too, because a chosen one goes on from the hidden reasoning in them."""
    return {
        span.needs: f"holds the reasoning that {span.label} goes on from"
        for span in history.spans
        if span.index in chosen and span.needs is not None and span.needs not in chosen
    }


def _reason(span: Span, history: History, pin: PinRule | None) -> str | None:
    if span.index == history.newest:
        return "newest span"
    if span.waiting:
        return "a tool call waits for its result"
    if pin is not None and pin(span):
        return "your pin rule"
    return None
