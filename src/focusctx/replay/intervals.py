"""A mean and how far to trust it: percentile intervals by bootstrap, over numbers or over groups of numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain
from statistics import fmean
from typing import NamedTuple

RESAMPLES = 1000
CONFIDENCE = 0.95
SEED = 42


class Interval(NamedTuple):
    """A mean and where it lies with the given confidence."""

    mean: float
    low: float
    high: float


def bootstrap(
    numbers: Sequence[float], *, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """Return the mean and the percentile interval of resampled means; the same for the same seed."""
    rng = random.Random(seed)
    means = [fmean(rng.choices(numbers, k=len(numbers))) for _ in range(resamples)]
    return interval_of(fmean(numbers), means, confidence)


def bootstrap_groups(groups: Sequence[Sequence[float]]) -> Interval | None:
    """Return the mean over all members; each resample draws whole groups. None where there is nothing."""
    filled = [group for group in groups if group]
    if not filled:
        return None
    if all(len(group) == 1 for group in filled):
        return bootstrap([group[0] for group in filled])
    sums = [(sum(group), len(group)) for group in filled]
    rng = random.Random(SEED)
    means = []
    for _ in range(RESAMPLES):
        drawn = rng.choices(sums, k=len(sums))
        means.append(sum(total for total, _ in drawn) / sum(count for _, count in drawn))
    return interval_of(fmean(chain.from_iterable(filled)), means)


def interval_of(mean: float, resampled: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean with the percentiles of its resamples."""
    tail = (1 - confidence) / 2
    return Interval(mean, percentile(resampled, tail), percentile(resampled, 1 - tail))


def percentile(numbers: Sequence[float], share: float) -> float:
    """Return the percentile, linear between the two nearest numbers."""
    ordered = sorted(numbers)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
