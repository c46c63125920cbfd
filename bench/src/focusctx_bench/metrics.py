"""The paper's metrics, from records: its appendix ("Evaluation Metrics"), and its tables on latency, tokens and runs.

`of_task` reads one record into a few numbers, so a folder of any size can be read one record at a time; `summarise`
averages them, with bootstrap confidence intervals over tasks. Token sizes are cl100k_base, system prompt excluded;
agent and draft tokens are what the provider counted and bills.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from focusctx.replay.lines import Interval, bootstrap, percentile
from focusctx.types import Usage

from .record import Ended, Record


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """One task in numbers."""

    task: str
    difficulty: str
    ended: Ended
    success: float
    details: Mapping[str, float]
    """The numbers among what else the benchmark said: em, f1."""
    steps: float
    """Turns of the agent."""
    peak: float
    """`max n_i`: the largest input of any step."""
    dependency: float
    """`Σ (n_i + 2 n_o)·n_o / 2`."""
    cumulative: float
    """`Σ n_i`: all the input that was read."""
    agent: Usage
    billed: float | None
    """The agent's cost with cache prices; `agent.cost` is at list prices, as in the paper."""
    draft: Usage
    """Usage of the models that the method asked: a draft, a summariser, an embedder."""
    seconds: float
    events: float
    """Compressions, those that found nothing to drop among them: their sketches were paid for, too."""
    failures: float
    """Compressions that were due and failed."""
    event_seconds: float
    """Seconds that the agent waited for all events together."""

    @property
    def cost(self) -> float | None:
        return (self.agent + self.draft).cost


def _total(costs: Sequence[float | None]) -> float | None:
    """Return the sum; None if some cost is not known."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


_AVERAGED = ("success", "steps", "peak", "dependency", "cumulative", "seconds", "events", "failures", "event_seconds")


def of_task(record: Record) -> TaskMetrics:
    steps = record.steps
    events = [step.event for step in steps if step.event is not None]
    well = [event for event in events if event.failure is None]
    bills = [step.billed for step in steps]
    return TaskMetrics(
        task=record.task,
        difficulty=record.difficulty,
        ended=record.ended,
        success=record.score.success,
        details={k: float(value) for k, value in record.score.details.items() if isinstance(value, int | float)},
        steps=len(steps),
        peak=max((step.input_tokens for step in steps), default=0),
        dependency=sum((step.input_tokens + 2 * step.output_tokens) * step.output_tokens / 2 for step in steps),
        cumulative=sum(step.input_tokens for step in steps),
        agent=sum((step.usage for step in steps), Usage()),
        billed=_total(bills),
        draft=sum((event.usage for event in events), Usage()),
        seconds=record.seconds,
        events=len(well),
        failures=len(events) - len(well),
        event_seconds=sum(event.seconds for event in well),
    )


def average(repeats: Sequence[TaskMetrics]) -> TaskMetrics:
    """Return one task as the mean of its repeated runs; those in which a model gave no answer do not count."""
    runs = [run for run in repeats if run.ended != "model"] or list(repeats)
    if len(runs) == 1:
        return runs[0]
    names = [name for name in runs[0].details if all(name in run.details for run in runs)]
    billed = _total([run.billed for run in runs])
    means: dict[str, Any] = {name: fmean(getattr(run, name) for run in runs) for name in _AVERAGED}
    return replace(
        runs[0],
        **means,
        details={name: fmean(run.details[name] for run in runs) for name in names},
        agent=_mean_usage([run.agent for run in runs]),
        billed=None if billed is None else billed / len(runs),
        draft=_mean_usage([run.draft for run in runs]),
    )


def _mean_usage(usages: Sequence[Usage]) -> Usage:
    """Return the mean of usages, in whole requests and tokens."""
    total, count = sum(usages, Usage()), len(usages)
    return Usage(
        round(total.requests / count),
        round(total.input_tokens / count),
        round(total.output_tokens / count),
        None if total.cost is None else total.cost / count,
    )


def recommended_budget(peaks: Sequence[float]) -> int:
    """Return δ for tasks with these peaks: the largest power of two that is at most half of their median.

    From the paper's own trajectory statistics this gives 4,096 for AppWorld and 2,048 for OfficeBench, its choices.
    """
    return 1 << int(math.log2(max(1.0, percentile(list(peaks), 0.5) / 2)))


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution of a number over tasks."""

    mean: float
    median: float
    p90: float
    max: float


def spread(numbers: Sequence[float]) -> Spread:
    return Spread(fmean(numbers), percentile(numbers, 0.5), percentile(numbers, 0.9), max(numbers))


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of the paper's tables. Means are per task; agent, draft and costs are totals."""

    tasks: int
    """Tasks in which the model answered; the others are to be run again."""
    accuracy: Interval
    details: Mapping[str, Interval]
    steps: Interval
    peak: Interval
    dependency: Interval
    trajectory: Mapping[str, Spread]
    """Spread of steps, peak, cumulative tokens and dependency."""
    agent: Usage
    billed: float | None
    draft: Usage
    cost: float | None
    """Agent and draft together, at list prices."""
    seconds: float
    """Wall clock of all tasks, one after the other."""
    events: float
    failures: float
    event_seconds: float | None
    """Seconds of one event, on average; None where there was none."""


def summarise(tasks: Iterable[TaskMetrics]) -> Summary:
    counted = [task for task in tasks if task.ended != "model"]
    if not counted:
        raise ValueError("no task to summarise")

    def interval(name: str) -> Interval:
        return bootstrap([getattr(task, name) for task in counted])

    agent = sum((task.agent for task in counted), Usage())
    draft = sum((task.draft for task in counted), Usage())
    events = sum(task.events for task in counted)
    names = [name for name in counted[0].details if all(name in task.details for task in counted)]
    return Summary(
        tasks=len(counted),
        accuracy=interval("success"),
        details={name: bootstrap([task.details[name] for task in counted]) for name in names},
        steps=interval("steps"),
        peak=interval("peak"),
        dependency=interval("dependency"),
        trajectory={
            name: spread([getattr(task, name) for task in counted])
            for name in ("steps", "peak", "cumulative", "dependency")
        },
        agent=agent,
        billed=_total([task.billed for task in counted]),
        draft=draft,
        cost=(agent + draft).cost,
        seconds=sum(task.seconds for task in counted),
        events=events,
        failures=sum(task.failures for task in counted),
        event_seconds=sum(task.event_seconds for task in counted) / events if events else None,
    )


def by_difficulty(tasks: Iterable[TaskMetrics]) -> dict[str, list[TaskMetrics]]:
    """The tasks of each class, in the order the classes first occur."""
    classes: dict[str, list[TaskMetrics]] = {}
    for task in tasks:
        classes.setdefault(task.difficulty, []).append(task)
    return classes


def difference(
    ours: Iterable[TaskMetrics], theirs: Iterable[TaskMetrics], number: Callable[[TaskMetrics], float]
) -> Interval:
    """Subtract theirs from ours, over the tasks that both have run: narrower than two intervals side by side."""
    other = {task.task: number(task) for task in theirs if task.ended != "model"}
    paired = [number(task) - other[task.task] for task in ours if task.ended != "model" and task.task in other]
    if not paired:
        raise ValueError("no task in common")
    return bootstrap(paired)
