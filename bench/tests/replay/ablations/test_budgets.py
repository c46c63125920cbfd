"""δ varied: the same runs at every budget, told apart by their events and peaks."""

from focusctx.replay.record import RunRecord, StepRecord
from focusctx.types import Usage
from focusctx_bench.replay.ablations.budgets import figures, recall, swept, tables
from focusctx_bench.report.document import Number
from focusctx_bench.report.drawing import drawn


def record(run: str, budget: int, events: int, method: str = "focus-d") -> RunRecord:
    steps = tuple(
        StepRecord(
            step=number,
            due=True,
            event=number <= events,
            span_tokens=1000,
            span_left=500,
            history_tokens=1200,
            sent_tokens=700,
            needed=2,
            there=1 if number <= events else 2,
        )
        for number in range(1, 11)
    )
    return RunRecord(
        file="log.jsonl", run=run, method=method, draft="offline", budget=budget, steps=steps, events=events,
        failures=0, words_lost=0, peak=budget + 100, dependency=1e6, cost=None, cost_cached=None,
        usage=Usage(), seconds=0.0,
    )  # fmt: skip


RECORDS = [
    *(record(f"run {n}", budget, events) for n in range(6) for budget, events in ((1000, 5), (2000, 2))),
    record("only once", 1000, 1),
    record("run 0", 1000, 5, method="none"),
]


def test_only_what_was_replayed_at_several_budgets_over_the_same_runs() -> None:
    [found] = swept(RECORDS)
    assert (found.method, list(found.at)) == ("focus-d", [1000, 2000])
    assert [len(records) for records in found.at.values()] == [6, 6]


def test_recall_is_over_all_actions() -> None:
    assert recall(record("a", 1000, 5)) == 0.75
    assert recall(record("a", 1000, 0)) == 1.0


def test_the_table_and_the_pictures() -> None:
    found = swept(RECORDS)
    [table] = tables(found)
    assert [row.name for row in table.rows] == ["focus-d, offline, δ = 1,000", "focus-d, offline, δ = 2,000"]
    shown = [[cell.value for cell in row.cells if isinstance(cell, Number)] for row in table.rows]
    assert shown == [[0.75, 1.1, 1.0, 5.0, 50.0], [0.9, 2.1, 1.0, 2.0, 20.0]]
    made = figures(found)
    assert [figure.key for figure in made] == ["front-log", "events-log"]
    assert all(drawn(figure, form="png").startswith(b"\x89PNG") for figure in made)
