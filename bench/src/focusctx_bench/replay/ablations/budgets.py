"""δ varied: how often histories are compressed, and what recall that leaves at which peak, from replayed runs.

Recall here is over *all* actions of a run that need evidence, due or not: the smaller δ, the more steps are due, and
budgets can only be compared over the same actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING, Any

from focusctx.replay.lines import Interval, bootstrap
from focusctx.replay.record import RunRecord

from ...report.document import Column, Number, Row, Table, cell_of
from ...report.drawing import Figure, Runs, Theme, bars, events_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Swept:
    """One method over one file at several budgets."""

    file: str
    method: str
    draft: str
    at: Mapping[int, Sequence[RunRecord]]
    """Records by budget, of equal runs at every budget."""

    @property
    def name(self) -> str:
        return f"{self.method}, {self.draft}" if self.draft else self.method


def swept(records: Iterable[RunRecord]) -> list[Swept]:
    """Methods that were replayed at several budgets, over the runs that all of them have."""
    groups: dict[tuple[str, str, str, str], dict[int, dict[str, RunRecord]]] = {}
    for record in records:
        settings = repr(sorted(record.settings.items()))
        key = (record.file, record.method, record.draft, settings)
        groups.setdefault(key, {}).setdefault(record.budget, {})[record.run] = record
    found = []
    for (file, method, draft, _), budgets in sorted(groups.items()):
        shared = set.intersection(*(set(runs) for runs in budgets.values()))
        if len(budgets) > 1 and shared:
            at = {budget: [runs[run] for run in sorted(shared)] for budget, runs in sorted(budgets.items())}
            found.append(Swept(file, method, draft, at))
    return found


def recall(record: RunRecord) -> float | None:
    """Return the share of needed facts that was in the view; None where none was needed."""
    needed = sum(step.needed for step in record.steps)
    return sum(step.there for step in record.steps) / needed if needed else None


def tables(found: Sequence[Swept]) -> list[Table]:
    return [_table(file, some) for file, some in _by_file(found)]


def figures(found: Sequence[Swept]) -> list[Figure]:
    return [figure for file, some in _by_file(found) for figure in (_front(file, some), _events(file, some[-1]))]


def _by_file(found: Sequence[Swept]) -> list[tuple[str, list[Swept]]]:
    return [(file, list(some)) for file, some in groupby(found, key=lambda one: one.file)]


def _table(file: str, found: Sequence[Swept]) -> Table:
    rows = []
    for one in found:
        for budget, records in one.at.items():
            events, steps = (sum(record.events for record in records), sum(len(record.steps) for record in records))
            cells = [
                cell_of(_recall(records), 3),
                cell_of(bootstrap([record.peak for record in records]), 2, 1e-3),
                Number(fmean(record.dependency for record in records) / 1e6, 2),
                Number(events / len(records), 1),
                Number(100 * events / max(steps, 1), 1),
                f"{len(records)}",
            ]
            rows.append(Row(f"{one.name}, δ = {budget:,}", cells))
    columns = [
        Column("recall", "more"), Column("peak", "less"), Column("dependency", "less"), Column("events"),
        Column("events per 100 steps"), Column("runs"),
    ]  # fmt: skip
    note = (
        "Recall over all actions that need evidence; peak in thousand tokens, dependency in millions; events of a run. "
        "In brackets: 95 % confidence, by bootstrap over runs."
    )
    return Table(f"budgets-{_plain(file)}", f"δ on {file}", note, columns, rows, stub="Method and δ")


def _recall(records: Sequence[RunRecord]) -> Interval | None:
    found = [share for record in records if (share := recall(record)) is not None]
    return bootstrap(found) if found else None


def _front(file: str, found: Sequence[Swept]) -> Figure:
    def draw(axes: Axes, theme: Theme) -> None:
        for number, one in enumerate(found):
            kept = {budget: share for budget, records in one.at.items() if (share := _recall(records)) is not None}
            peaks = [fmean(record.peak for record in one.at[budget]) / 1000 for budget in kept]
            axes.errorbar(
                peaks, [share.mean for share in kept.values()],
                yerr=bars([*kept.values()]),
                **theme.look(number), capsize=2.5,
                linewidth=1.5, label=one.name,
            )  # fmt: skip
            for budget, peak in zip(kept, peaks, strict=True):
                axes.annotate(
                    f"{budget:,}", (peak, kept[budget].mean), xytext=(5, -11), textcoords="offset points",
                    fontsize=8, color=theme.soft,
                )  # fmt: skip
        axes.margins(x=0.08)
        axes.set_xlabel("peak tokens of a run, mean (thousands)")
        axes.set_ylabel("evidence recall, all actions")
        axes.legend(fontsize=8.5)

    note = "Numbers: δ. Further left is cheaper, further up is better. Bars: 95 % confidence."
    return Figure(f"front-{_plain(file)}", f"Recall against peak over δ, {file}", note, draw)


def _events(file: str, one: Swept) -> Figure:
    def lines(theme: Theme) -> Iterator[tuple[Runs, Mapping[str, Any]]]:
        for number, (budget, records) in enumerate(one.at.items()):
            events = ([(place, step.event) for place, step in enumerate(record.steps, 1)] for record in records)
            yield events, {**theme.look(number), "label": f"δ = {budget:,}"}

    return events_figure(f"events-{_plain(file)}", f"Events by step, {one.name}, {file}", lines)


def _plain(file: str) -> str:
    return file.removesuffix(".jsonl")
