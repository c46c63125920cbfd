"""The events of the study: points of recorded runs with enough spans, a few of every file, one of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from focusctx.config import FocusConfig
from focusctx.pipeline.must_stay import pinned_spans
from focusctx.replay.facts import text_of

from ..points import Place, Point
from ..sketches import PointSketches
from .likelihoods import Likelihoods
from .votes import Votes, read_votes

LEAST_SPANS = 6
"""As in the paper: with fewer there is little to choose."""


@dataclass(frozen=True, slots=True)
class Event:
    """One point with what was recorded there."""

    point: Point
    votes: Votes
    scored: Likelihoods | None

    def holders(self) -> dict[str, frozenset[int]]:
        """For each fact that later actions use, the spans that gave it."""
        texts = {span.index: text_of(span) for span in self.point.history.spans}
        return {fact: frozenset(index for index, text in texts.items() if fact in text) for fact in self.point.needed}


def choose(points: Iterable[Point], count: int, least_spans: int = LEAST_SPANS) -> list[Point]:
    """The first fitting point of each run, files in turn, until there are enough."""
    by_file: dict[str, dict[str, Point]] = {}
    for point in points:
        if len(point.history.spans) >= least_spans:
            by_file.setdefault(point.file, {}).setdefault(point.run, point)
    in_turn = zip_longest(*(runs.values() for runs in by_file.values()))
    return [point for turn in in_turn for point in turn if point is not None][:count]


def at_stake(point: Point) -> list[int]:
    """The spans that may be dropped."""
    pinned = pinned_spans(point.history, FocusConfig().pin)
    return [span.index for span in point.history.spans if span.index not in pinned]


def gather(
    points: Iterable[Point],
    recorded: Mapping[Place, PointSketches],
    scored: Mapping[Place, Likelihoods],
    least_spans: int = LEAST_SPANS,
) -> list[Event]:
    """The points that have recorded sketches, with what they say; those with too few spans or no plan are left out."""
    found = []
    for point in points:
        place = point.place
        if place not in recorded or len(point.history.spans) < least_spans:
            continue
        pinned = pinned_spans(point.history, FocusConfig().pin)
        spans = [span.index for span in point.history.spans]
        votes = read_votes(place, spans, pinned, recorded[place].as_replies())
        if votes.cited and votes.spans:
            found.append(Event(point, votes, scored.get(place)))
    return found
