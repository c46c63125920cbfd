"""Records of a replay grouped into lines of a table: one method with its settings, over the runs of a file.

Figures are means over records, with intervals by bootstrap over *runs*: the points of one run are not independent, so
a run is drawn with all of its points. Differences are paired, record by record. A figure is named by the attribute of
the record that holds it, such as `recall`.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from statistics import fmean
from typing import Any, Generic, NamedTuple, TypeVar

from .methods import FOCUS
from .record import ReplayRecord, settings_text

R = TypeVar("R", bound=ReplayRecord)
RESAMPLES = 1000
CONFIDENCE = 0.95
SEED = 42
NAMES = {
    "none": "No compression",
    "again": "No compression, asked again",
    "fifo": "Last five turns",
    "retrieval": "Retrieval, top five",
    "llmlingua": "LLMLingua",
    "prompting": "Prompting",
    "masking-10": "Masking, M = 10",
    "masking-5": "Masking, M = 5",
    "masking-3": "Masking, M = 3",
    "acon-ut": "ACON UT",
    "acon-utco": "ACON UTCO",
    "focus-o": "FOCUS-O",
    "focus-d": "FOCUS-D",
    "focus": "FOCUS",
    "oracle": "Oracle",
}
_COMPARATORS = {"fifo": "Newest spans", "retrieval": "Retrieval", "masking": "Masking"}
_ORDER = [*NAMES]


@dataclass(frozen=True)
class Line(Generic[R]):
    method: str
    draft: str
    budget: int
    settings: Mapping[str, Any]
    records: Mapping[tuple[str, ...], R]
    """By place."""
    detail: str
    """The settings in which it differs from other lines of the same method; mostly empty."""

    @property
    def name(self) -> str:
        return f"{method_name(self.method)} ({self.detail})" if self.detail else method_name(self.method)

    @property
    def is_focus(self) -> bool:
        return self.method in FOCUS

    @property
    def matched(self) -> str:
        """The method whose share of tokens it got; "" if it chose its own."""
        return self.method.partition("@")[2]

    @cached_property
    def runs(self) -> int:
        return len({place[:2] for place in self.records})

    def average(self, measure: str) -> float | None:
        figures = [figure for record in self.records.values() if (figure := getattr(record, measure)) is not None]
        return fmean(figures) if figures else None

    def total(self, measure: str) -> int:
        return sum(getattr(record, measure) for record in self.records.values())

    def mean(self, measure: str) -> Interval | None:
        """Return the mean with its confidence interval."""
        return bootstrap_groups(_by_run({place: getattr(record, measure) for place, record in self.records.items()}))

    def minus(self, other: Line[R], measure: str) -> Interval | None:
        """Return this line's figure minus the other's, over the records that both have."""
        both = [place for place in self.records if place in other.records]
        ours = {place: getattr(self.records[place], measure) for place in both}
        theirs = {place: getattr(other.records[place], measure) for place in both}
        return bootstrap_groups(_by_run({place: _minus(ours[place], theirs[place]) for place in both}))

    def is_matched_to(self, focus: Line[R]) -> bool:
        """True if this comparator got the tokens that this very line of FOCUS left."""
        own = {key: value for key, value in self.settings.items() if key != "embedder"}
        ours, theirs = (self.draft, self.budget, own), (focus.draft, focus.budget, dict(focus.settings))
        return self.matched == focus.method and ours == theirs


def lines_of(records: Iterable[R], *, budgets: bool = True) -> list[Line[R]]:
    """Return a line for each method and setting; with `budgets` off, those that differ only in δ are one."""
    groups: defaultdict[Hashable, list[R]] = defaultdict(list)
    for record in records:
        key = record.method, record.draft, record.budget if budgets else 0, settings_text(record.settings)
        groups[key].append(record)
    details = _details([some[0] for some in groups.values()], budgets)
    made = [
        Line(
            method=some[0].method,
            draft=some[0].draft,
            budget=some[0].budget if budgets else 0,
            settings=some[0].settings,
            records={record.place: record for record in some},
            detail=detail,
        )
        for some, detail in zip(groups.values(), details, strict=True)
    ]
    return sorted(made, key=lambda line: (order_of(line.method), line.budget, line.detail))


def by_file(records: Iterable[R]) -> dict[str, list[R]]:
    files: defaultdict[str, list[R]] = defaultdict(list)
    for record in records:
        files[record.file].append(record)
    return dict(sorted(files.items()))


def _by_run(figures: Mapping[tuple[str, ...], float | None]) -> list[list[float]]:
    runs: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
    for place, figure in sorted(figures.items()):
        if figure is not None:
            runs[place[:2]].append(float(figure))
    return list(runs.values())


def _minus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _details(firsts: Sequence[ReplayRecord], budgets: bool) -> list[str]:
    """Return, for each line's first record, the settings in which lines of its method differ."""
    settings = [_settings(record, budgets) for record in firsts]
    values: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for record, own in zip(firsts, settings, strict=True):
        for name, value in own.items():
            values[record.method, name].add(value)
    return [
        ", ".join(value for name, value in own.items() if len(values[record.method, name]) > 1)
        for record, own in zip(firsts, settings, strict=True)
    ]


def _settings(record: ReplayRecord, budgets: bool) -> dict[str, str]:
    own = {"draft": record.draft, "budget": f"δ = {record.budget:,}" if budgets else ""}
    return own | {name: f"{name} = {value}" for name, value in record.settings.items()}


def method_name(method: str) -> str:
    """Return the display name; `fifo@focus` is "Newest spans @ FOCUS"."""
    name, _, matched = method.partition("@")
    if matched:
        return f"{_COMPARATORS.get(name, name)} @ {method_name(matched)}"
    return NAMES.get(method, method)


def order_of(method: str) -> tuple[int, int]:
    """Sort rules first, then each FOCUS with the comparators that got its share of tokens behind it."""
    name, _, matched = method.partition("@")
    lead = matched or name
    place = _ORDER.index(lead) if lead in _ORDER else len(_ORDER)
    return place, 1 + [*_COMPARATORS].index(name) if matched and name in _COMPARATORS else 0


class Interval(NamedTuple):
    """A mean with its confidence interval."""

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
