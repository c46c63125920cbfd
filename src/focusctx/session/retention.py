"""Limits on the age and size of a store, as given in a store URL.

Whole conversations are removed, least recently used first. One that was used recently is never removed, even if the
store is too large: its agent would have to send the whole history again.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

from ..errors import ConfigError

IN_USE = 600.0
"""Seconds after its last use during which a conversation counts as in use."""
DAY = 24 * 3600.0
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY}
_BYTES = {"b": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3, "tb": 1024**4}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits after which stored conversations are removed. None means no limit."""

    max_age: float | None
    """Seconds since the conversation was last used."""
    max_size: int | None
    """Bytes of all stored data."""

    def with_query(self, query: str) -> Limits:
        """Apply `max_age=30d&max_size=2GB` from a URL."""
        given = dict(parse_qsl(query, keep_blank_values=True))
        if unknown := next((name for name in given if name not in ("max_age", "max_size")), None):
            raise ConfigError(f"unknown store option {unknown!r}; known: max_age, max_size")
        age, size = given.get("max_age"), given.get("max_size")
        return Limits(
            max_age=self.max_age if age is None else None if age == "none" else seconds_of(age, "max_age"),
            max_size=self.max_size if size is None else None if size == "none" else _bytes_of(size),
        )


def seconds_of(text: str, name: str) -> float:
    """Read an age: `30d`, `12h`, `90m`, `45s`, `2w`."""
    return _quantity(text, _SECONDS, f"{name} must be an age such as 30d, 12h or 90m, not {text!r}")


def _bytes_of(text: str) -> int:
    return int(_quantity(text, _BYTES, f"max_size must be a size such as 2GB, 500MB or none, not {text!r}"))


def _quantity(text: str, units: dict[str, float] | dict[str, int], problem: str) -> float:
    found = _QUANTITY.fullmatch(text.strip().lower())
    if not found or found[2] not in units or not math.isfinite(value := float(found[1]) * units[found[2]]) or not value:
        raise ConfigError(problem)
    return value


def spelled_size(size: float) -> str:
    """Format a number of bytes for people: `3.4 MB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"
