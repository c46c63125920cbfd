"""Lines of a report: the records of one method with its settings, over the runs of a file.

Figures are means over records, of walks or of points, with intervals by bootstrap over *runs*: the points of one run
are not independent, so a run is drawn with all of its points. Differences are paired, record by record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, Generic, TypeAlias, TypeVar

from .clusters import clustered
from .intervals import Interval
from .methods import FOCUS
from .names import method_name, order_of
from .record import PointRecord, RunRecord, settings_text

R = TypeVar("R", RunRecord, PointRecord)
Measure: TypeAlias = Callable[[R], float | None]
"""A figure of one record, or None."""


@dataclass(frozen=True)
class Line(Generic[R]):
    method: str
    draft: str
    budget: int
    settings: Mapping[str, Any]
    records: Mapping[tuple[str, ...], R]
    """Records by file, run and position."""
    told: str
    """The settings that distinguish it from other lines of the method; mostly empty."""

    @property
    def name(self) -> str:
        return f"{method_name(self.method)} ({self.told})" if self.told else method_name(self.method)

    @property
    def is_focus(self) -> bool:
        return self.method in FOCUS

    @property
    def whose(self) -> str:
        """The method whose token count it was given; "" if it has its own."""
        return self.method.partition("@")[2]

    @cached_property
    def runs(self) -> int:
        return len({place[:2] for place in self.records})

    def average(self, measure: Measure[R]) -> float | None:
        figures = [figure for record in self.records.values() if (figure := measure(record)) is not None]
        return fmean(figures) if figures else None

    def mean(self, measure: Measure[R]) -> Interval | None:
        """Return the average with its confidence interval."""
        return clustered(_by_run({place: measure(record) for place, record in self.records.items()}))

    def minus(self, other: Line[R], measure: Measure[R]) -> Interval | None:
        """Return this line's figure minus the other's, over the records that both have."""
        return clustered(
            _by_run(
                {
                    place: _minus(measure(record), measure(other.records[place]))
                    for place, record in self.records.items()
                    if place in other.records
                }
            )
        )

    def is_given_the_room_of(self, focus: Line[R]) -> bool:
        own = {key: value for key, value in self.settings.items() if key != "embedder"}
        return self.whose == focus.method and (self.draft, self.budget, own) == (
            focus.draft, focus.budget, dict(focus.settings),
        )  # fmt: skip


def lines_of(records: Iterable[R], *, budgets: bool = True) -> list[Line[R]]:
    """Return a line for each method and setting; without `budgets`, lines that differ only in δ are merged."""
    groups: defaultdict[Hashable, list[R]] = defaultdict(list)
    for record in records:
        key = record.method, record.draft, record.budget if budgets else 0, settings_text(record.settings)
        groups[key].append(record)
    told = _differences([some[0] for some in groups.values()], budgets)
    made = [
        Line(
            method=some[0].method,
            draft=some[0].draft,
            budget=some[0].budget if budgets else 0,
            settings=some[0].settings,
            records={_place(record): record for record in some},
            told=told(some[0]),
        )
        for some in groups.values()
    ]
    return sorted(made, key=lambda line: (order_of(line.method), line.budget, line.told))


def by_file(records: Iterable[R]) -> dict[str, list[R]]:
    files: defaultdict[str, list[R]] = defaultdict(list)
    for record in records:
        files[record.file].append(record)
    return dict(sorted(files.items()))


def _place(record: RunRecord | PointRecord) -> tuple[str, ...]:
    own = str(record.messages) if isinstance(record, PointRecord) else ""
    return record.file, record.run, own


def _by_run(figures: Mapping[tuple[str, ...], float | None]) -> list[list[float]]:
    runs: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
    for place, figure in sorted(figures.items()):
        if figure is not None:
            runs[place[:2]].append(float(figure))
    return list(runs.values())


def _minus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _differences(firsts: Sequence[R], budgets: bool) -> Callable[[R], str]:
    """Return a function that names the settings in which lines of a record's method differ."""
    seen: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for record in firsts:
        for name, value in _told(record, budgets).items():
            seen[record.method][name].add(value)

    def told(record: R) -> str:
        own = _told(record, budgets)
        return ", ".join(own[name] for name in own if len(seen[record.method][name]) > 1)

    return told


def _told(record: RunRecord | PointRecord, budgets: bool) -> dict[str, str]:
    own = {"draft": record.draft, "budget": f"δ = {record.budget:,}" if budgets else ""}
    return own | {name: f"{name} = {value}" for name, value in record.settings.items()}
