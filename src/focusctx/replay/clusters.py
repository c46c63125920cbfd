"""Means over grouped values, with intervals by bootstrap over the groups."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain
from statistics import fmean

from .intervals import CONFIDENCE, RESAMPLES, SEED, Interval, bootstrap, percentile


def clustered(groups: Sequence[Sequence[float]]) -> Interval | None:
    """Return the mean over all members; each resample draws whole groups. None if there are none."""
    some = [group for group in groups if group]
    if not some:
        return None
    if all(len(group) == 1 for group in some):
        return bootstrap([group[0] for group in some])
    sums = [(sum(group), len(group)) for group in some]
    chance = random.Random(SEED)
    means = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(sums, k=len(sums))
        means.append(sum(total for total, _ in drawn) / sum(count for _, count in drawn))
    tail = (1 - CONFIDENCE) / 2
    return Interval(fmean(chain.from_iterable(some)), percentile(means, tail), percentile(means, 1 - tail))
