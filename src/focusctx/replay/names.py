"""The names and the order of methods in reports."""

from __future__ import annotations

NAMES = {
    "none": "No compression",
    "fifo": "FIFO",
    "retrieval": "Retrieval",
    "llmlingua": "LLMLingua",
    "prompting": "Prompting",
    "masking-10": "Masking, M = 10",
    "masking-5": "Masking, M = 5",
    "masking-3": "Masking, M = 3",
    "acon-ut": "ACON UT",
    "acon-utco": "ACON UTCO",
    "focus-o": "FOCUS-O",
    "focus-d": "FOCUS-D",
}
AGAIN = "again"

_NAMES = {
    "none": NAMES["none"],
    AGAIN: "No compression, asked again",
    **NAMES,
    "fifo": "Last five turns",
    "retrieval": "Retrieval, top five",
    "focus": "FOCUS",
    "oracle": "Oracle",
}
_COMPARATORS = {"fifo": "Newest spans", "retrieval": "Retrieval", "masking": "Masking"}
_PLACES = [*_NAMES]


def method_name(method: str) -> str:
    name, _, whose = method.partition("@")
    if whose:
        return f"{_COMPARATORS.get(name, name)} @ {method_name(whose)}"
    return _NAMES.get(method, method)


def order_of(method: str) -> tuple[int, int]:
    """Return the sort key: rules first, then each FOCUS followed by the comparators with its token count."""
    name, _, whose = method.partition("@")
    lead = whose or name
    place = _PLACES.index(lead) if lead in _PLACES else len(_PLACES)
    return place, 1 + [*_COMPARATORS].index(name) if whose and name in _COMPARATORS else 0
