"""One event's sketches as votes: which spans are at stake, and which of them each sketch cites or rescues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from focusctx.pipeline.draft import read_sketch
from focusctx.theory import set_utility
from focusctx.types import Reply

from ..points import Place


@dataclass(frozen=True, slots=True)
class Votes:
    """Votes of one event's sketches on the spans that may be dropped."""

    place: Place
    spans: tuple[int, ...]
    """Spans that may be dropped. Pinned ones are always kept, and would only flatter every figure."""
    cited: tuple[frozenset[int], ...]
    """For each sketch that is a plan, the spans it cites …"""
    rescued: tuple[frozenset[int], ...]
    """… and those it rescues."""
    replies: int
    """Number of sampled replies; those that are no plan do not vote."""

    @property
    def utility(self) -> dict[int, float]:
        """`û_i` over all sketches, of every span at stake."""
        return self._shares(self.cited)

    def score(self, *, defensive: bool) -> dict[int, float]:
        """Return what is compared with the threshold: the utility, or the share of rescues where that is more."""
        if not defensive:
            return self.utility
        rescue = self._shares(self.rescued)
        return {index: max(share, rescue[index]) for index, share in self.utility.items()}

    def keep(self, threshold: float, *, defensive: bool) -> frozenset[int]:
        """Return the decision of all sketches together."""
        return frozenset(index for index, share in self.score(defensive=defensive).items() if share >= threshold)

    def set_utility(self, dropped: Collection[int]) -> float:
        """`û_S`."""
        return set_utility(self.cited, dropped)

    def split(self, count: int) -> tuple[Votes, Votes]:
        """Return the first `count` plans, and the others."""
        return (
            replace(self, cited=self.cited[:count], rescued=self.rescued[:count], replies=count),
            replace(self, cited=self.cited[count:], rescued=self.rescued[count:], replies=self.replies - count),
        )

    def _shares(self, votes: Sequence[frozenset[int]]) -> dict[int, float]:
        counts = Counter(index for vote in votes for index in vote)
        return {index: counts[index] / len(votes) for index in self.spans}


def read_votes(place: Place, spans: Iterable[int], pinned: Collection[int], replies: Sequence[Reply]) -> Votes:
    """Read the votes in the replies about a history of these spans."""
    known = tuple(spans)
    at_stake = tuple(index for index in known if index not in pinned)
    sketches = [read_sketch(reply.text, known, truncated=reply.truncated) for reply in replies]
    plans = [sketch for sketch in sketches if sketch.problem is None]
    return Votes(
        place=place,
        spans=at_stake,
        cited=tuple(plan.cited.intersection(at_stake) for plan in plans),
        rescued=tuple(plan.rescued.intersection(at_stake) for plan in plans),
        replies=len(replies),
    )


BINS = ("0", *(f"{low / 10:.1f}–{(low + 1) / 10:.1f}" for low in range(10)), "1")
"""No sketch, ten open tenths, every sketch."""
_NEAR = 1 / 6
"""Distance from τ that counts as a close call, as in the paper."""


@dataclass(frozen=True, slots=True)
class Spread:
    name: str
    values: tuple[float, ...]
    """The utility of every span of every event."""

    def shares(self) -> list[float]:
        """Return the share of spans in each bin."""
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
