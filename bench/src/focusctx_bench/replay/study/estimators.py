"""Several estimators of the same utility, compared event by event: kept sets, rankings, and what was used later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from focusctx.replay.lines import Interval, bootstrap

from .ranks import auc, overlap, spearman, top


@dataclass(frozen=True, slots=True)
class Scores:
    """One event: a utility for every span at stake from each estimator, and the spans that were used later."""

    by_estimator: Mapping[str, Mapping[int, float]]
    kept: int
    """Number of spans that the sketches keep: every estimator may keep as many."""
    used: frozenset[int]
    """The spans that gave a fact which later actions use."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two estimators, over events."""

    left: str
    right: str
    events: int
    overlap: Interval | None
    """Overlap of their kept sets, both of the same size."""
    chance: float
    """Overlap of two random sets of that size."""
    decisions: Interval | None
    """Spearman's rank correlation of keep and drop, as in the paper."""
    utilities: Interval | None
    """Spearman's rank correlation of the utilities themselves."""


@dataclass(frozen=True, slots=True)
class Use:
    """One estimator against what the recorded future used."""

    estimator: str
    events: int
    auc: Interval | None
    """Probability that a span that was used later ranks above one that was not."""
    recall: Interval | None
    """The share of used spans among the kept, where each estimator keeps as many as the sketches do."""


def agreements(events: Sequence[Scores]) -> list[Agreement]:
    """Every pair of estimators, over the events that have both."""
    names = list(dict.fromkeys(name for event in events for name in event.by_estimator))
    return [_agreement(left, right, events) for left, right in combinations(names, 2)]


def uses(events: Sequence[Scores]) -> list[Use]:
    names = list(dict.fromkeys(name for event in events for name in event.by_estimator))
    return [_use(name, [event for event in events if name in event.by_estimator]) for name in names]


def _agreement(left: str, right: str, events: Sequence[Scores]) -> Agreement:
    both = [event for event in events if left in event.by_estimator and right in event.by_estimator]
    undecided = [event for event in both if 0 < event.kept < len(event.by_estimator[left])]

    def each(measure: Callable[[Mapping[int, float], Mapping[int, float], int], float | None]) -> list[float]:
        found = [measure(event.by_estimator[left], event.by_estimator[right], event.kept) for event in undecided]
        return [value for value in found if value is not None]

    return Agreement(
        left,
        right,
        len(undecided),
        _mean(each(lambda a, b, kept: overlap(top(dict(a), kept), top(dict(b), kept)))),
        fmean([event.kept / len(event.by_estimator[left]) for event in undecided] or [0.0]),
        _mean(each(_decisions)),
        _mean(each(lambda a, b, _: spearman([a[index] for index in a], [b[index] for index in a]))),
    )


def _decisions(left: Mapping[int, float], right: Mapping[int, float], kept: int) -> float | None:
    first, second = top(dict(left), kept), top(dict(right), kept)
    return spearman([index in first for index in left], [index in second for index in left])


def _use(name: str, events: Sequence[Scores]) -> Use:
    areas = []
    shares = []
    for event in events:
        scores = event.by_estimator[name]
        area = auc(list(scores.values()), [index in event.used for index in scores])
        if area is not None:
            areas.append(area)
            shares.append(len(top(dict(scores), event.kept) & event.used) / len(event.used & scores.keys()))
    return Use(name, len(areas), _mean(areas), _mean(shares))


def _mean(numbers: Sequence[float]) -> Interval | None:
    return bootstrap(numbers) if numbers else None
