"""A mean over tasks and how far to trust it: bootstrap confidence intervals, and how numbers spread."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

RESAMPLES = 1000
CONFIDENCE = 0.95
SEED = 42


class Interval(NamedTuple):
    """A mean over tasks and where it lies with the given confidence."""

    mean: float
    low: float
    high: float


class Spread(NamedTuple):
    """How a number is distributed over tasks."""

    mean: float
    median: float
    p90: float
    max: float


def bootstrap(
    numbers: Sequence[float], *, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """The mean, and the percentile interval of the means of that many resamples; the same for the same seed."""
    chance = random.Random(seed)
    means = [fmean(chance.choices(numbers, k=len(numbers))) for _ in range(resamples)]
    tail = (1 - confidence) / 2
    return Interval(fmean(numbers), percentile(means, tail), percentile(means, 1 - tail))


def spread(numbers: Sequence[float]) -> Spread:
    return Spread(fmean(numbers), percentile(numbers, 0.5), percentile(numbers, 0.9), max(numbers))


def percentile(numbers: Sequence[float], share: float) -> float:
    """Between the two nearest numbers, linearly."""
    ordered = sorted(numbers)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
