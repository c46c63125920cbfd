"""Means over tasks with bootstrap confidence intervals, and the distribution of numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

RESAMPLES = 1000
CONFIDENCE = 0.95
SEED = 42


class Interval(NamedTuple):
    """A mean over tasks and its confidence interval."""

    mean: float
    low: float
    high: float


class Spread(NamedTuple):
    """Distribution of a number over tasks."""

    mean: float
    median: float
    p90: float
    max: float


def bootstrap(
    numbers: Sequence[float], *, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """Return the mean, and the percentile interval of the resamples' means; reproducible by its seed."""
    chance = random.Random(seed)
    means = [fmean(chance.choices(numbers, k=len(numbers))) for _ in range(resamples)]
    tail = (1 - confidence) / 2
    return Interval(fmean(numbers), percentile(means, tail), percentile(means, 1 - tail))


def spread(numbers: Sequence[float]) -> Spread:
    return Spread(fmean(numbers), percentile(numbers, 0.5), percentile(numbers, 0.9), max(numbers))


def percentile(numbers: Sequence[float], share: float) -> float:
    """Interpolate linearly between the two nearest numbers."""
    ordered = sorted(numbers)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
