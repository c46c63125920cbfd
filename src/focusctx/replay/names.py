"""What methods are called in reports, and in which order they stand."""

from __future__ import annotations

from ...report.collect import NAMES
from ..agreement.answers import AGAIN

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
    """Rules first, then each FOCUS with those that got its share of tokens behind it."""
    name, _, whose = method.partition("@")
    lead = whose or name
    place = _PLACES.index(lead) if lead in _PLACES else len(_PLACES)
    return place, 1 + [*_COMPARATORS].index(name) if whose and name in _COMPARATORS else 0
