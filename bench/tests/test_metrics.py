"""The metrics against the paper's formulas, written out naively; intervals against what is known about them."""

import math
import random
import statistics
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_helpers.made import a_record, records
from focusctx.replay.lines import bootstrap, percentile
from focusctx_bench.metrics import TaskMetrics, by_difficulty, difference, of_task, spread, summarise
from focusctx_bench.record import Record
from focusctx_bench.report.drawing import count_events
from focusctx_bench.results.collect import StudyLine
from helpers.thorough import examples


def naive(record: Record) -> dict[str, Any]:
    """The appendix, term by term."""
    peak = 0
    dependency = 0.0
    cumulative = agent_in = agent_out = agent_requests = draft_in = draft_out = draft_requests = events = failures = 0
    waiting = 0.0
    costs: list[float | None] = []
    for step in record.steps:
        n_i, n_o = step.input_tokens, step.output_tokens
        if n_i > peak:
            peak = n_i
        dependency += (n_i + 2 * n_o) * n_o / 2
        cumulative += n_i
        agent_in += step.usage.input_tokens
        agent_out += step.usage.output_tokens
        agent_requests += step.usage.requests
        costs.append(step.usage.cost)
        if step.event is not None:
            draft_in += step.event.usage.input_tokens
            draft_out += step.event.usage.output_tokens
            draft_requests += step.event.usage.requests
            costs.append(step.event.usage.cost)
            if step.event.failure is not None:
                failures += 1
            else:
                events += 1
                waiting += step.event.seconds
    return {
        "steps": len(record.steps),
        "peak": peak,
        "dependency": dependency,
        "cumulative": cumulative,
        "agent": (agent_requests, agent_in, agent_out),
        "draft": (draft_requests, draft_in, draft_out),
        "cost": None if None in costs else sum(cost for cost in costs if cost is not None),
        "events": events,
        "failures": failures,
        "event_seconds": waiting,
    }


@given(records())
@settings(max_examples=examples(200), deadline=None)
def test_one_task(record: Record) -> None:
    found, expected = of_task(record), naive(record)
    for name in ("steps", "peak", "cumulative", "events", "failures"):
        assert getattr(found, name) == expected[name]
    for usage in ("agent", "draft"):
        parts = getattr(found, usage)
        assert (parts.requests, parts.input_tokens, parts.output_tokens) == expected[usage]
    assert found.dependency == pytest.approx(expected["dependency"])
    assert found.event_seconds == pytest.approx(expected["event_seconds"])
    assert (found.cost is None) == (expected["cost"] is None)
    if found.cost is not None:
        assert found.cost == pytest.approx(expected["cost"])
    assert found.details == {"f1": record.score.details["f1"]}


@given(st.lists(records(), min_size=1, max_size=8))
@settings(max_examples=examples(40), deadline=None)
def test_a_row_of_a_table(many: list[Record]) -> None:
    counted = [of_task(record) for record in many if record.ended != "model"]
    if not counted:
        with pytest.raises(ValueError, match="no task"):
            summarise(map(of_task, many))
        return
    row = summarise(map(of_task, many))
    assert row.tasks == len(counted)
    assert row.accuracy.mean == pytest.approx(statistics.fmean(task.success for task in counted))
    assert row.details["f1"].mean == pytest.approx(statistics.fmean(task.details["f1"] for task in counted))
    for name in ("steps", "peak", "dependency"):
        values = [getattr(task, name) for task in counted]
        interval = getattr(row, name)
        assert interval.mean == pytest.approx(statistics.fmean(values))
        slack = 1e-9 * max(values)
        assert min(values) - slack <= interval.low <= interval.high <= max(values) + slack
        assert row.trajectory[name].max == max(values)
        assert row.trajectory[name].median == pytest.approx(statistics.median(values))
    assert row.agent.input_tokens == sum(task.agent.input_tokens for task in counted)
    assert row.draft.requests == sum(task.draft.requests for task in counted)
    assert row.events == sum(task.events for task in counted)
    assert (row.event_seconds is None) == (row.events == 0)


def test_the_papers_latency_table_adds_up() -> None:
    """OfficeBench, sequential: 83 events of three sketches each, priced as in the paper."""
    from focusctx.prices import price_of

    agent, draft = price_of("gpt-4.1"), price_of("gpt-4.1-mini")
    assert agent is not None
    assert draft is not None
    assert agent.cost(2_584_000, 75_000) == pytest.approx(5.77, abs=0.005)
    assert draft.cost(375_000, 24_000) == pytest.approx(0.19, abs=0.005)
    assert 83 * 3 == 249


def _task(name: str, success: float) -> TaskMetrics:
    return of_task(a_record(name, success))


def test_a_paired_difference_looks_only_at_common_tasks() -> None:
    ours = [_task("a", 1), _task("b", 1), _task("c", 0), _task("only ours", 0)]
    theirs = [_task("c", 0), _task("b", 0), _task("a", 0)]
    found = difference(ours, theirs, lambda task: task.success)
    assert found.mean == pytest.approx(2 / 3)
    assert 0 <= found.low <= found.mean <= found.high <= 1
    with pytest.raises(ValueError, match="no task in common"):
        difference(ours[3:], theirs, lambda task: task.success)


def test_classes_keep_their_order() -> None:
    tasks = [replace(_task("a", 1), difficulty=name) for name in ("medium", "easy", "medium")]
    assert {name: len(found) for name, found in by_difficulty(tasks).items()} == {"medium": 2, "easy": 1}


@given(st.lists(records(), max_size=6))
@settings(max_examples=examples(40), deadline=None)
def test_events_by_step(many: list[Record]) -> None:
    line = StudyLine("focus", {})
    for record in many:
        line.add(record)
    found = count_events(line.event_steps)
    longest = max((len(record.steps) for record in many), default=0)
    assert sorted(found) == list(range(1, longest + 1))
    for number, (runs, events) in found.items():
        reached = [record.steps[number - 1] for record in many if len(record.steps) >= number]
        assert (runs, events) == (len(reached), sum(1 for step in reached if step.event and step.event.failure is None))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40), st.floats(0, 1))
def test_percentiles_are_those_of_the_standard_library(numbers: list[float], share: float) -> None:
    assert percentile(numbers, 0.5) == pytest.approx(statistics.median(numbers), abs=1e-6)
    deciles = statistics.quantiles(numbers, n=10, method="inclusive")
    assert spread(numbers).p90 == pytest.approx(deciles[8], abs=1e-6)
    assert min(numbers) <= percentile(numbers, share) <= max(numbers)


def test_the_interval_is_about_as_wide_as_theory_says() -> None:
    chance = random.Random(7)
    numbers = [chance.gauss(10, 2) for _ in range(400)]
    found = bootstrap(numbers)
    assert found == bootstrap(numbers)
    assert found != bootstrap(numbers, seed=1)
    width = 2 * 1.96 * statistics.stdev(numbers) / math.sqrt(400)
    assert found.high - found.low == pytest.approx(width, rel=0.1)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    chance = random.Random(11)
    covered = 0
    for seed in range(200):
        low, high = bootstrap([float(chance.random() < 0.7) for _ in range(100)], resamples=200, seed=seed)[1:]
        covered += low <= 0.7 <= high
    assert 180 <= covered <= 199


def test_one_task_alone_has_no_width() -> None:
    assert bootstrap([3.0]) == (3.0, 3.0, 3.0)
