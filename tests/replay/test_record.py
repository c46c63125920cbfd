"""Records of walks: what they say, and that they come back as they were."""

from dataclasses import replace
from pathlib import Path

from focusctx.replay.record import RunRecord, StepRecord, run_records
from focusctx.types import Usage

BEFORE = StepRecord(1, False, False, 0, 0, 10, 10, 3, 0)
RUN = RunRecord(
    file="log.jsonl", run="7", method="focus-d", draft="offline", budget=100, settings={"rollouts": 3},
    steps=(
        BEFORE,
        StepRecord(2, True, True, 100, 50, 120, 70, 4, 2, repeated=True, forgotten=True),
        StepRecord(3, True, False, 200, 100, 240, 140, 0, 0, repeated=True),
        StepRecord(4, True, False, 300, 50, 340, 90, 2, 2),
    ),
    events=1, failures=0, words_lost=0, peak=140, dependency=1234.5, cost=0.5, cost_cached=None,
    usage=Usage(1, 2, 3, None), seconds=0.25,
)  # fmt: skip


def test_figures_are_of_due_steps() -> None:
    assert RUN.recall == 4 / 6
    assert RUN.whole == 1 / 2
    assert RUN.span_share == 200 / 600
    assert RUN.history_share == 300 / 700
    assert (RUN.repeated, RUN.forgotten) == (2, 1)
    never_due = replace(RUN, steps=(BEFORE,))
    assert never_due.recall is never_due.whole is never_due.span_share is None


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    other = replace(RUN, run="8", settings={"rollouts": 3, "fill": 0.45})
    run_records(tmp_path).add(RUN, other)
    assert list(run_records(tmp_path)) == [RUN, other]
    assert len({RUN.key, other.key, replace(RUN, budget=200).key, replace(RUN, draft="x").key}) == 4
