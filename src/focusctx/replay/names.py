"""Display names of methods, and the order in which they are listed."""

from __future__ import annotations

NAMES = {
    "none": "No compression",
    "again": "No compression, asked again",
    "fifo": "Last five turns",
    "retrieval": "Retrieval, top five",
    "llmlingua": "LLMLingua",
    "prompting": "Prompting",
    "masking-10": "Masking, M = 10",
    "masking-5": "Masking, M = 5",
    "masking-3": "Masking, M = 3",
    "acon-ut": "ACON UT",
    "acon-utco": "ACON UTCO",
    "focus-o": "FOCUS-O",
    "focus-d": "FOCUS-D",
    "focus": "FOCUS",
    "oracle": "Oracle",
}
_COMPARATORS = {"fifo": "Newest spans", "retrieval": "Retrieval", "masking": "Masking"}
_ORDER = [*NAMES]


def method_name(method: str) -> str:
    """Return the display name; `fifo@focus` is "Newest spans @ FOCUS"."""
    name, _, matched = method.partition("@")
    if matched:
        return f"{_COMPARATORS.get(name, name)} @ {method_name(matched)}"
    return NAMES.get(method, method)


def order_of(method: str) -> tuple[int, int]:
    """Sort rules first, then each FOCUS with the comparators that got its share of tokens behind it."""
    name, _, matched = method.partition("@")
    lead = matched or name
    place = _ORDER.index(lead) if lead in _ORDER else len(_ORDER)
    return place, 1 + [*_COMPARATORS].index(name) if matched and name in _COMPARATORS else 0
