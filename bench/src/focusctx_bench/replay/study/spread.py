"""How utilities are spread between "no sketch cites it" and "all do": the paper's margin, looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .votes import Votes

BINS = ("0", *(f"{low / 10:.1f}–{(low + 1) / 10:.1f}" for low in range(10)), "1")
"""No sketch, ten open tenths, every sketch."""
_NEAR = 1 / 6
"""How close to τ is a close call, as in the paper."""


@dataclass(frozen=True, slots=True)
class Spread:
    name: str
    values: tuple[float, ...]
    """The utility of every span of every event."""

    def shares(self) -> list[float]:
        """Of the spans, in each bin."""
        counts = [0] * len(BINS)
        for value in self.values:
            counts[0 if value <= 0 else 11 if value >= 1 else 1 + min(int(10 * value), 9)] += 1
        return [count / len(self.values) for count in counts]

    @property
    def extremes(self) -> float:
        """The share of spans that no sketch or every sketch cites."""
        return sum(value in (0.0, 1.0) for value in self.values) / len(self.values)

    def near(self, threshold: float) -> float:
        """The share of spans with a utility close to the threshold."""
        return sum(abs(value - threshold) <= _NEAR for value in self.values) / len(self.values)


def spread_of(events: Sequence[Votes]) -> Spread:
    return Spread("all sketches", tuple(value for votes in events for value in votes.utility.values()))


def spread_in_groups(events: Sequence[Votes], size: int) -> Spread:
    """The utilities that each `size` sketches in a row give, as if an event had sampled just those."""
    values = []
    for votes in events:
        for first in range(0, len(votes.cited) - size + 1, size):
            some = votes.cited[first : first + size]
            values += [sum(index in cited for cited in some) / size for index in votes.spans]
    return Spread(f"N = {size}", tuple(values))
