"""Convergence: the decision and the worst span's error at N sketches, against those of very many.

The recorded sketches of an event stand for the draft: `u*` and the converged keep-set are those of all of them, and
a sample of N is drawn from them *with* replacement, as a draft that writes exactly these would give it. Drawing
without would make the error fall to 0 at the number recorded, and its slope too steep.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from focusctx.replay.lines import RESAMPLES, SEED, Interval, bootstrap, interval_of

from .ranks import jaccard, log_log_slope
from .votes import Votes

SIZES = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
DRAWS = 200
SETTLED = 0.95
"""The mean overlap at which a keep-set counts as settled."""
ENOUGH = 30
"""Fewer sketches than this are no stand-in for the draft: no slope and no settling are read off them."""


@dataclass(frozen=True, slots=True)
class Curve:
    """For each N, a mean over draws for every event."""

    name: str
    sizes: tuple[int, ...]
    jaccard: tuple[tuple[float, ...], ...]
    """One row per event: the overlap of the decision at each N with the converged one."""
    error: tuple[tuple[float, ...], ...]
    """One row per event: the worst span's error at each N."""

    def jaccards(self) -> list[Interval]:
        return [bootstrap([row[place] for row in self.jaccard]) for place in range(len(self.sizes))]

    def errors(self) -> list[Interval]:
        return [bootstrap([row[place] for row in self.error]) for place in range(len(self.sizes))]

    @property
    def enough(self) -> bool:
        return self.sizes[-1] >= ENOUGH

    def settles(self, level: float = SETTLED) -> int | None:
        """The smallest N from which on the mean overlap is at least `level`."""
        means = [fmean(row[place] for row in self.jaccard) for place in range(len(self.sizes))]
        below = [place for place, mean in enumerate(means) if mean < level]
        first = below[-1] + 1 if below else 0
        return self.sizes[first] if first < len(self.sizes) else None

    def slope(self) -> Interval | None:
        """Slope of the mean worst-span error over N on log-log axes, with its interval by bootstrap over events."""
        whole = self._slope(self.error)
        if whole is None or not self.enough:
            return None
        chance = random.Random(SEED)
        again = [self._slope(chance.choices(self.error, k=len(self.error))) for _ in range(RESAMPLES)]
        found = [slope for slope in again if slope is not None]
        return interval_of(whole, found)

    def _slope(self, rows: Sequence[Sequence[float]]) -> float | None:
        return log_log_slope(self.sizes, [fmean(row[place] for row in rows) for place in range(len(self.sizes))])


def converge(
    events: Sequence[Votes],
    threshold: float,
    *,
    defensive: bool,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Curve:
    """The curve of the citation share: FOCUS-O's decision, or FOCUS-D's where rescues count too.

    Where some events have enough plans, those that have not are left out.
    """
    counted = [votes for votes in events if len(votes.cited) >= ENOUGH] or events
    most = min(len(votes.cited) for votes in counted)
    sizes = tuple(size for size in SIZES if size <= most)
    rows = [_event(votes, threshold, defensive, sizes, _Draws(draws, random.Random(seed))) for votes in counted]
    name = "plans and rescues" if defensive else "plans"
    return Curve(name, sizes, tuple(row[0] for row in rows), tuple(row[1] for row in rows))


@dataclass(frozen=True, slots=True)
class _Draws:
    number: int
    chance: random.Random


def _event(
    votes: Votes, threshold: float, defensive: bool, sizes: tuple[int, ...], draws: _Draws
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    truth = votes.score(defensive=defensive)
    decision = votes.keep(threshold, defensive=defensive)
    agreed = [0.0] * len(sizes)
    wrong = [0.0] * len(sizes)
    ballots = list(zip(votes.cited, votes.rescued, strict=True))
    for _ in range(draws.number):
        cited: Counter[int] = Counter()
        rescued: Counter[int] = Counter()
        drawn = 0
        # One long draw, looked at whenever it reaches the next N.
        for place, size in enumerate(sizes):
            for plan, rescue in draws.chance.choices(ballots, k=size - drawn):
                cited.update(plan)
                rescued.update(rescue)
            drawn = size
            shares = {index: max(cited[index], rescued[index] if defensive else 0) / size for index in votes.spans}
            agreed[place] += jaccard({index for index, share in shares.items() if share >= threshold}, decision)
            wrong[place] += max(abs(share - truth[index]) for index, share in shares.items())
    return tuple(total / draws.number for total in agreed), tuple(total / draws.number for total in wrong)
