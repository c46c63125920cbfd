"""Agreement of a model's next actions, from its answers, with intervals by bootstrap over runs.

A run's points count together: its figure is their mean, and every figure here is a mean over runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from focusctx.replay.lines import Interval, bootstrap

from .action import Action, Agreement, action_of, agreement
from .views import FULL, RECORDED, Answer

Place: TypeAlias = tuple[str, str, int]
Measure: TypeAlias = Callable[[Agreement], float]

MEASURES: Mapping[str, Measure] = {
    "exact": lambda found: found.exact,
    "tool": lambda found: found.tool,
    "arguments": lambda found: found.arguments,
}


@dataclass(frozen=True, slots=True)
class Agreed:
    """One method at the points where it, the full history and the recorded agent have all acted."""

    method: str
    draft: str
    points: int
    span_share: float
    """Tokens of spans that the model read, of all."""
    history_share: float
    with_full: Mapping[str, Mapping[str, float]]
    """For each measure, each run's agreement with the turn under the full history …"""
    with_recorded: Mapping[str, Mapping[str, float]]
    """… and with what the recorded agent did."""

    @property
    def runs(self) -> int:
        return len(self.with_full["exact"])

    def full(self, measure: str) -> Interval:
        return bootstrap(list(self.with_full[measure].values()))

    def recorded(self, measure: str) -> Interval:
        return bootstrap(list(self.with_recorded[measure].values()))

    def ahead_of(self, other: Agreed, measure: str) -> Interval | None:
        """Return by how much more this one agrees with the full history, over the runs that both have; paired."""
        ours, theirs = self.with_full[measure], other.with_full[measure]
        both = [ours[run] - theirs[run] for run in ours if run in theirs]
        return bootstrap(both) if both else None


def compare(answers: Iterable[Answer]) -> list[Agreed]:
    """Every method, over the same points for all: those at which each has an answer of one model."""
    lines: defaultdict[tuple[str, str, str], dict[Place, Answer]] = defaultdict(dict)
    for answer in answers:
        lines[answer.line][answer.place] = answer
    if not lines:
        return []
    common = set.intersection(*(set(some) for some in lines.values()))
    actions = {line: {place: action_of(some[place].turn) for place in common} for line, some in lines.items()}
    plain = {method: found for (method, _, _), found in actions.items() if method in (FULL, RECORDED)}
    if not common or plain.keys() != {FULL, RECORDED}:
        return []
    return [
        _agreed([some[place] for place in sorted(common)], actions[line], plain)
        for line, some in lines.items()
        if line[0] != RECORDED
    ]


def _agreed(
    answers: Sequence[Answer], actions: Mapping[Place, Action], plain: Mapping[str, Mapping[Place, Action]]
) -> Agreed:
    return Agreed(
        method=answers[0].method,
        draft=answers[0].draft,
        points=len(answers),
        span_share=fmean(one.span_left / one.span_tokens for one in answers if one.span_tokens),
        history_share=fmean(one.sent_tokens / one.history_tokens for one in answers),
        with_full=_by_run({place: agreement(action, plain[FULL][place]) for place, action in actions.items()}),
        with_recorded=_by_run({place: agreement(action, plain[RECORDED][place]) for place, action in actions.items()}),
    )


def _by_run(found: Mapping[Place, Agreement]) -> dict[str, dict[str, float]]:
    runs: defaultdict[str, list[Agreement]] = defaultdict(list)
    for (file, run, _), one in sorted(found.items(), key=lambda item: item[0]):
        runs[f"{file} {run}"].append(one)
    return {name: {run: fmean(map(measure, some)) for run, some in runs.items()} for name, measure in MEASURES.items()}
