"""FOCUS through the office with the scripted draft: where sketches overlook nothing, nothing that matters is lost."""

import pytest

from focusctx.baselines.focus import FocusMethod
from focusctx_bench.benchmarks.office import scripted_draft
from focusctx_bench.metrics import of_task
from office.runs import full_run, run

TASKS = (2, 4, 5, 7, 8, 10)


@pytest.mark.parametrize("budget", [2048, 4096])
@pytest.mark.parametrize("number", TASKS)
def test_nothing_that_matters_is_lost(number: int, budget: int) -> None:
    record = run(number, lambda: FocusMethod(scripted_draft(), budget))
    full, short = of_task(full_run(number)), of_task(record)
    assert short.success == 1
    assert short.steps == full.steps
    assert short.events > 0
    assert short.failures == 0
    assert short.peak < full.peak
    assert short.dependency < full.dependency
    assert short.draft.requests == 3 * short.events


def test_without_the_defensive_check_failures_come_again() -> None:
    """What failed before supports no step of a plan: only the rescue lines name it."""
    optimistic = (
        run(number, lambda: FocusMethod(scripted_draft(), 2048, defensive=False)) for number in range(2, 60, 3)
    )
    complaints = (complaint for record in optimistic for complaint in record.score.details["complaints"])
    assert any("locked" in complaint or "fee" in complaint for complaint in complaints)


def test_sketches_that_overlook_much_lose_what_matters() -> None:
    careless = (run(number, lambda: FocusMethod(scripted_draft(0.8), 2048)) for number in TASKS)
    assert not all(record.score.success for record in careless)
