"""One event's sketches as votes: which spans are at stake, and which of them each sketch cites or rescues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from focusctx.pipeline.cite import read_sketch
from focusctx.theory import set_utility
from focusctx.types import Reply

from ..points import Place


@dataclass(frozen=True, slots=True)
class Votes:
    """What the sketches of one event say about the spans that may be dropped."""

    place: Place
    spans: tuple[int, ...]
    """Those at stake: pinned ones are kept whatever the sketches say, and would only flatter every figure."""
    cited: tuple[frozenset[int], ...]
    """For each sketch that is a plan, the spans it cites …"""
    rescued: tuple[frozenset[int], ...]
    """… and those it rescues."""
    replies: int
    """How many were sampled; those that are no plan do not vote."""

    @property
    def utility(self) -> dict[int, float]:
        """`û_i` over all sketches, of every span at stake."""
        return self._shares(self.cited)

    def score(self, *, defensive: bool) -> dict[int, float]:
        """What the threshold is held against: the utility, or the share that rescues the span where that is more."""
        if not defensive:
            return self.utility
        rescue = self._shares(self.rescued)
        return {index: max(share, rescue[index]) for index, share in self.utility.items()}

    def keep(self, threshold: float, *, defensive: bool) -> frozenset[int]:
        """The decision of all sketches together."""
        return frozenset(index for index, share in self.score(defensive=defensive).items() if share >= threshold)

    def set_utility(self, dropped: Collection[int]) -> float:
        """`û_S`."""
        return set_utility(self.cited, dropped)

    def split(self, count: int) -> tuple[Votes, Votes]:
        """The first so many plans, and the others."""
        return (
            replace(self, cited=self.cited[:count], rescued=self.rescued[:count], replies=count),
            replace(self, cited=self.cited[count:], rescued=self.rescued[count:], replies=self.replies - count),
        )

    def _shares(self, votes: Sequence[frozenset[int]]) -> dict[int, float]:
        counts = Counter(index for vote in votes for index in vote)
        return {index: counts[index] / len(votes) for index in self.spans}


def read_votes(place: Place, spans: Iterable[int], pinned: Collection[int], replies: Sequence[Reply]) -> Votes:
    """The votes in the replies about a history of these spans."""
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
