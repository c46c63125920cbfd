"""Measures of how alike two sets or two rankings are, and of how fast a quantity falls."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from scipy import stats


def jaccard(left: Collection[int], right: Collection[int]) -> float:
    """Return shared members over all members; two empty sets are the same set."""
    first, second = set(left), set(right)
    return len(first & second) / len(first | second) if first | second else 1.0


def overlap(left: Collection[int], right: Collection[int]) -> float | None:
    """Return the overlap coefficient: shared members over the smaller set. None where a set is empty."""
    first, second = set(left), set(right)
    return len(first & second) / min(len(first), len(second)) if first and second else None


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Return the rank correlation. None where one side ranks nothing: all its numbers are equal."""
    if len(set(left)) < 2 or len(set(right)) < 2:
        return None
    return float(stats.spearmanr(left, right).statistic)


def auc(numbers: Sequence[float], hits: Sequence[bool]) -> float | None:
    """Return how likely a hit has a larger number than a miss; ties count half. None without hits or misses."""
    ours = [number for number, hit in zip(numbers, hits, strict=True) if hit]
    others = [number for number, hit in zip(numbers, hits, strict=True) if not hit]
    if not ours or not others:
        return None
    return float(stats.mannwhitneyu(ours, others).statistic) / (len(ours) * len(others))


def log_log_slope(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return the least-squares slope of log y over log x, over the points where both are above 0."""
    points = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if a > 0 and b > 0]
    if len({a for a, _ in points}) < 2:
        return None
    return float(stats.linregress([a for a, _ in points], [b for _, b in points]).slope)


def top(scores: dict[int, float], count: int) -> frozenset[int]:
    """Return the `count` spans of highest score; of equals the newer ones, as an agent's newest steps matter most."""
    return frozenset(sorted(scores, key=lambda index: (-scores[index], -index))[:count])
