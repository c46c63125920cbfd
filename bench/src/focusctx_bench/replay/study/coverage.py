"""Draft–agent coverage: does the agent need what the draft does not cite?

The paper's bound carries over from the draft to the agent where `u^π_S <= κ·u^q_S + ε`. Here `u^q_S` is the share
of sketches that cite any span of S, and the agent's side is what the recorded run did: 1 where a later action uses a
fact that nothing but S gave, else 0. One run is one sample of the agent's future, so `u^π` is a mean over many sets
with about the same `u^q`. The sets are fixed without looking at the sketches: every span alone, every "oldest j
spans", and random ones. ε is then the mean where no sketch cites the set, and κ the smallest slope that puts the
line above the mean of every bin.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from focusctx.replay.lines import SEED, Interval, bootstrap

from .votes import Votes

_EDGES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Upper edges of the bins over `u^q`; the first holds the sets that no sketch cites."""
_LEAST_EVENTS = 5
"""A bin with sets of fewer events says nothing and is left out."""
_RANDOM_SETS = 10
"""Random sets of each event."""


@dataclass(frozen=True, slots=True)
class Observed:
    """One set of spans at one event."""

    event: int
    cited: float
    """`u^q_S`."""
    needed: bool
    """True if a later action would miss something if just this set were gone."""


@dataclass(frozen=True, slots=True)
class Bin:
    cited: float
    """The mean `u^q` of its sets."""
    needed: Interval
    """`u^π`: the mean over events of the share of needed sets."""
    sets: int


@dataclass(frozen=True, slots=True)
class Coverage:
    name: str
    bins: tuple[Bin, ...]

    @property
    def epsilon(self) -> float:
        """Share of sets that the agent needs and no sketch cites."""
        return next((found.needed.mean for found in self.bins if found.cited == 0), 0.0)

    @property
    def kappa(self) -> float:
        return max((max(0.0, one.needed.mean - self.epsilon) / one.cited for one in self.bins if one.cited), default=0)


def coverage(name: str, observed: Sequence[Observed]) -> Coverage:
    bins = []
    for low, high in zip((-1.0, *_EDGES[:-1]), _EDGES, strict=True):
        inside = [one for one in observed if low < one.cited <= high]
        by_event: dict[int, list[bool]] = {}
        for one in inside:
            by_event.setdefault(one.event, []).append(one.needed)
        if len(by_event) < _LEAST_EVENTS:
            continue
        # Sets of one event overlap: events, not sets, are what is drawn anew.
        needed = bootstrap([fmean(found) for found in by_event.values()])
        bins.append(Bin(fmean(one.cited for one in inside), needed, len(inside)))
    return Coverage(name, tuple(bins))


def single_spans(events: Sequence[Votes], holders: Sequence[Mapping[str, frozenset[int]]]) -> list[Observed]:
    """Every span alone. `holders[e]` names, for each fact that later actions use, the spans that gave it."""
    return [
        _observe(number, votes, {index}, holders[number])
        for number, votes in enumerate(events)
        for index in votes.spans
    ]


def sets_of_spans(
    events: Sequence[Votes], holders: Sequence[Mapping[str, frozenset[int]]], seed: int = SEED
) -> list[Observed]:
    """The oldest j spans for every j, and random sets of every size."""
    chance = random.Random(seed)
    found = []
    for number, votes in enumerate(events):
        oldest = [votes.spans[:count] for count in range(2, len(votes.spans) + 1)]
        drawn = [chance.sample(votes.spans, chance.randint(1, len(votes.spans))) for _ in range(_RANDOM_SETS)]
        found += [_observe(number, votes, set(spans), holders[number]) for spans in (*oldest, *drawn)]
    return found


def is_needed(spans: Collection[int], holders: Mapping[str, frozenset[int]]) -> bool:
    """Return True if some fact is given by these spans and by no other."""
    return any(given.issubset(spans) for given in holders.values())


def _observe(number: int, votes: Votes, spans: set[int], holders: Mapping[str, frozenset[int]]) -> Observed:
    return Observed(number, votes.set_utility(spans), is_needed(spans, holders))
