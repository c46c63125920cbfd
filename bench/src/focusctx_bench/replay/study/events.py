"""The events of the study: points of recorded runs with enough spans, and the votes of the sketches recorded there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from focusctx.pipeline.draft import read_sketch
from focusctx.replay.facts import text_of
from focusctx.theory import set_utility
from focusctx.types import Reply

from ..points import Place, Point
from ..sketches import PointSketches
from .scoring import Likelihoods

LEAST_SPANS = 6
"""As in the paper: with fewer there is little to choose."""


@dataclass(frozen=True, slots=True)
class StudyEvent:
    """One point with what was recorded there."""

    point: Point
    votes: Votes
    scored: Likelihoods | None

    def holders(self) -> dict[str, frozenset[int]]:
        """Return, for each fact that later actions use, the spans that gave it."""
        texts = {span.index: text_of(span) for span in self.point.history.spans}
        return {fact: frozenset(index for index, text in texts.items() if fact in text) for fact in self.point.needed}


def choose(points: Iterable[Point], count: int) -> list[Point]:
    """Choose the first fitting point of each run, files in turn, until there are enough."""
    by_file: dict[str, dict[str, Point]] = {}
    for point in points:
        if len(point.history.spans) >= LEAST_SPANS:
            by_file.setdefault(point.file, {}).setdefault(point.run, point)
    in_turn = zip_longest(*(runs.values() for runs in by_file.values()))
    return [point for turn in in_turn for point in turn if point is not None][:count]


def gather(
    points: Iterable[Point],
    recorded: Mapping[Place, PointSketches],
    scored: Mapping[Place, Likelihoods],
) -> list[StudyEvent]:
    """Return the points that have recorded sketches; those with too few spans or no plan are left out."""
    found = []
    for point in points:
        place = point.place
        if place not in recorded or len(point.history.spans) < LEAST_SPANS:
            continue
        spans = [span.index for span in point.history.spans]
        votes = read_votes(place, spans, point.at_stake, recorded[place].as_replies())
        if votes.cited and votes.spans:
            found.append(StudyEvent(point, votes, scored.get(place)))
    return found


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


def read_votes(place: Place, spans: Sequence[int], at_stake: Sequence[int], replies: Sequence[Reply]) -> Votes:
    """Read the votes in the replies about a history of these spans, of which those `at_stake` may be dropped."""
    sketches = [read_sketch(reply.text, spans, truncated=reply.truncated) for reply in replies]
    plans = [sketch for sketch in sketches if sketch.problem is None]
    return Votes(
        place=place,
        spans=tuple(at_stake),
        cited=tuple(plan.cited.intersection(at_stake) for plan in plans),
        rescued=tuple(plan.rescued.intersection(at_stake) for plan in plans),
        replies=len(replies),
    )


BINS = ("0", *(f"{low / 10:.1f}–{(low + 1) / 10:.1f}" for low in range(10)), "1")
"""No sketch, ten open tenths, every sketch."""
_NEAR = 1 / 6
"""Distance from τ that counts as a close call, as in the paper."""


@dataclass(frozen=True, slots=True)
class UtilitySpread:
    """Distribution of utilities over spans."""

    name: str
    values: tuple[float, ...]
    """The utility of every span of every event."""

    def shares(self) -> list[float]:
        """Return the share of spans in each bin."""
        counts = [0] * len(BINS)
        for value in self.values:
            counts[0 if value <= 0 else 11 if value >= 1 else 1 + min(int(10 * value), 9)] += 1
        return [count / len(self.values) for count in counts]

    def near(self, threshold: float) -> float:
        """Return the share of spans with a utility close to the threshold."""
        return sum(abs(value - threshold) <= _NEAR for value in self.values) / len(self.values)


def spread_of(events: Sequence[Votes]) -> UtilitySpread:
    return UtilitySpread("all sketches", tuple(value for votes in events for value in votes.utility.values()))


def spread_in_groups(events: Sequence[Votes], size: int) -> UtilitySpread:
    """Return the utilities that each `size` sketches in a row give, as if an event had sampled only these."""
    values = []
    for votes in events:
        for first in range(0, len(votes.cited) - size + 1, size):
            some = votes.cited[first : first + size]
            values += [sum(index in cited for cited in some) / size for index in votes.spans]
    return UtilitySpread(f"N = {size}", tuple(values))
