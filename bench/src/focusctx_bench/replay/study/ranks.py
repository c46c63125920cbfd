"""How alike two sets or two rankings are, and how fast a quantity falls: small statistics, no library needed."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import fmean


def jaccard(left: Collection[int], right: Collection[int]) -> float:
    """Shared members over all members; two empty sets are the same set."""
    first, second = set(left), set(right)
    return len(first & second) / len(first | second) if first | second else 1.0


def overlap(left: Collection[int], right: Collection[int]) -> float | None:
    """The overlap coefficient: shared members over the smaller set. None where a set is empty."""
    first, second = set(left), set(right)
    return len(first & second) / min(len(first), len(second)) if first and second else None


def ranks(numbers: Sequence[float]) -> list[float]:
    """The place of each number from the smallest, 1 first; equal numbers share the mean of their places."""
    order = sorted(range(len(numbers)), key=lambda place: numbers[place])
    found = [0.0] * len(numbers)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and numbers[order[end + 1]] == numbers[order[start]]:
            end += 1
        for place in order[start : end + 1]:
            found[place] = (start + end) / 2 + 1
        start = end + 1
    return found


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Rank correlation. None where one side ranks nothing: all its numbers are equal."""
    return _correlation(ranks(left), ranks(right))


def auc(numbers: Sequence[float], hits: Sequence[bool]) -> float | None:
    """How likely a hit has a larger number than a miss; ties count half. None without hits or without misses."""
    count = sum(hits)
    if not 0 < count < len(hits):
        return None
    total = sum(rank for rank, hit in zip(ranks(numbers), hits, strict=True) if hit)
    return (total - count * (count + 1) / 2) / (count * (len(hits) - count))


def log_log_slope(x: Sequence[float], y: Sequence[float]) -> float | None:
    """The least-squares slope of log y over log x, over the points where both are above 0."""
    points = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if a > 0 and b > 0]
    if len({a for a, _ in points}) < 2:
        return None
    mean_x, mean_y = fmean(a for a, _ in points), fmean(b for _, b in points)
    return sum((a - mean_x) * (b - mean_y) for a, b in points) / sum((a - mean_x) ** 2 for a, _ in points)


def top(scores: dict[int, float], count: int) -> frozenset[int]:
    """The `count` spans of highest score; of equals the newer ones, as an agent's newest steps matter most."""
    return frozenset(sorted(scores, key=lambda index: (-scores[index], -index))[:count])


def _correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    mean_left, mean_right = fmean(left), fmean(right)
    both = sum((a - mean_left) * (b - mean_right) for a, b in zip(left, right, strict=True))
    size = math.sqrt(sum((a - mean_left) ** 2 for a in left) * sum((b - mean_right) ** 2 for b in right))
    return both / size if size else None
