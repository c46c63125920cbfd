"""Arms of a live comparison: their runs side by side, paired by task, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from scipy import stats

from focusctx.errors import BenchError
from focusctx.replay.lines import Interval

from ..folder import runs_below
from .measures import LiveRun, measure

_SEED = 42
_RESAMPLES = 9999


@dataclass(frozen=True, slots=True)
class Arm:
    name: str
    benchmark: str
    runs: dict[str, LiveRun]
    """Runs by task."""

    def mean(self, number: str) -> float:
        return fmean(getattr(run, number) for run in self.runs.values())

    @property
    def success(self) -> Interval:
        """Mean score, with Wilson's interval where every run either succeeded or failed."""
        scores = [run.success for run in self.runs.values()]
        if not set(scores) <= {0.0, 1.0}:
            return bootstrapped(scores)
        interval = stats.binomtest(int(sum(scores)), len(scores)).proportion_ci(method="wilson")
        return Interval(fmean(scores), interval.low, interval.high)


@dataclass(frozen=True, slots=True)
class Pairing:
    """An arm against a reference, over the tasks that both have run."""

    tasks: int
    won: int
    """Tasks in which only this arm succeeded …"""
    lost: int
    """… and in which only the reference did."""

    @property
    def p(self) -> float:
        """Exact McNemar test of "neither is better"."""
        different = self.won + self.lost
        return stats.binomtest(self.won, different).pvalue if different else 1.0


def pair(arm: Arm, reference: Arm) -> Pairing:
    common = [(run, reference.runs[task]) for task, run in arm.runs.items() if task in reference.runs]
    won = sum(ours.success > theirs.success for ours, theirs in common)
    return Pairing(len(common), won, sum(ours.success < theirs.success for ours, theirs in common))


def difference(arm: Arm, reference: Arm, number: str) -> Interval:
    """Return the mean of arm minus reference over common tasks, with a bootstrap interval."""
    paired = [
        float(getattr(run, number) - getattr(reference.runs[task], number))
        for task, run in arm.runs.items()
        if task in reference.runs
    ]
    if not paired:
        raise BenchError(f"{arm.name} and {reference.name} have no task in common")
    return bootstrapped(paired)


def bootstrapped(values: Sequence[float]) -> Interval:
    """Return the mean with a 95 % percentile interval of a bootstrap with a fixed seed."""
    mean = fmean(values)
    if len(set(values)) == 1:
        return Interval(mean, mean, mean)
    found = stats.bootstrap((values,), fmean, n_resamples=_RESAMPLES, vectorized=False, method="percentile", rng=_SEED)
    return Interval(mean, found.confidence_interval.low, found.confidence_interval.high)


def read_arms(folders: Sequence[str]) -> list[Arm]:
    """Read the runs of `[NAME=]FOLDER`s. Without a name, an arm is called after its method."""
    arms: dict[tuple[str, str], Arm] = {}
    for text in folders:
        name, equals, path = text.partition("=")
        for folder in runs_below(Path(path if equals else text)):
            records = list(folder.records)
            several = len({record.variant for record in records}) > 1
            for record in records:
                label = record.variant if several else record.method
                if equals:
                    label = f"{name} {label}" if several else name
                arm = arms.setdefault((record.benchmark, label), Arm(label, record.benchmark, {}))
                if record.task in arm.runs:
                    raise BenchError(f"two runs of {record.task} under {label!r}: give the folders names, NAME=FOLDER")
                arm.runs[record.task] = measure(record, label)
    if not arms:
        raise BenchError("no finished run in these folders")
    return list(arms.values())


def reference_of(arms: Sequence[Arm], name: str | None) -> Arm:
    """Return the arm that others are compared with: the named one, else `full`, `none`, or the first."""
    if name is not None:
        found = next((arm for arm in arms if arm.name == name), None)
        if found is None:
            raise BenchError(f"no arm {name!r}; arms: {', '.join(arm.name for arm in arms)}")
        return found
    return next((arm for arm in arms if arm.name in ("full", "none")), arms[0])
