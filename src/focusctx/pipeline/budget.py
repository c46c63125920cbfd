"""Step 2, budget: is compression due, and which spans must never be dropped?"""

from __future__ import annotations

from ..config import FocusConfig
from ..errors import FocusError
from ..types import History, PinRule, Span
from .companions import leaders_of

NEWEST = "newest span"
NEWER = "newer than the sketches"


def over_budget(history: History, config: FocusConfig) -> bool:
    """True if the history exceeds the budget: `|H_t| > δ`."""
    return history.tokens > config.budget


def pinned_spans(history: History, pin: PinRule | None) -> dict[int, str]:
    """Return the spans that stay whatever the sketches say, each with the reason."""
    newest = history.newest
    pinned = {span.index: reason for span in history.spans if (reason := _reason(span, newest, pin))}
    return {**leaders_of(history, pinned.keys()), **pinned}


def _reason(span: Span, newest: int, pin: PinRule | None) -> str | None:
    if span.index == newest:
        return NEWEST
    if span.waiting:
        return "not complete: a tool call waits for its result, or a reference stands for what is not seen"
    if pin is not None and _is_pinned(span, pin):
        return "your pin rule"
    return None


def _is_pinned(span: Span, pin: PinRule) -> bool:
    try:
        return bool(pin(span))
    except Exception as error:
        name = getattr(pin, "__name__", repr(pin))
        problem = f"the function given as pin ({name}) raised {type(error).__name__} for {span.label}: {error}"
        raise FocusError(problem) from error
