"""Records of replays: what they say, and that they outlive a kill."""

from dataclasses import replace
from pathlib import Path

import pytest

from focusctx.errors import BenchError
from focusctx.replay.record import PointRecord, RunRecord, StepRecord, point_records, run_records
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
POINT = PointRecord(
    file="log.jsonl", run="7", messages=12, method="focus", draft="", budget=100, event=True, span_tokens=100,
    span_left=40, history_tokens=200, sent_tokens=140, needed=5, there=4, words_lost=0, usage=Usage(), seconds=0.1,
)  # fmt: skip


def test_figures_are_of_due_steps() -> None:
    assert RUN.recall == 4 / 6
    assert RUN.supported == 1 / 2
    assert RUN.span_share == 200 / 600
    assert RUN.history_share == 300 / 700
    assert (RUN.repeated, RUN.forgotten) == (2, 1)
    never_due = replace(RUN, steps=(BEFORE,))
    assert never_due.recall is never_due.supported is never_due.span_share is None


def test_figures_of_a_point() -> None:
    assert (POINT.recall, POINT.complete) == (0.8, False)
    assert (POINT.span_share, POINT.history_share) == (0.4, 0.7)
    nothing_needed = replace(POINT, needed=0, there=0)
    assert nothing_needed.recall is nothing_needed.complete is None


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    other = replace(RUN, run="8", settings={"rollouts": 3, "fill": 0.45})
    run_records(tmp_path).add([RUN])
    run_records(tmp_path).add([other])
    point_records(tmp_path).add([POINT])
    assert list(run_records(tmp_path)) == [RUN, other]
    assert list(point_records(tmp_path)) == [POINT]
    assert run_records(tmp_path).done() == {RUN.key, other.key}
    assert len({RUN.key, other.key, replace(RUN, budget=200).key, replace(RUN, draft="x").key}) == 4


def test_what_a_model_did_not_answer_is_made_again_and_the_last_record_counts(tmp_path: Path) -> None:
    records = run_records(tmp_path)
    records.add([replace(RUN, failures=2, unanswered=1, failure="nobody there"), replace(RUN, run="8", failures=1)])
    assert records.done() == {replace(RUN, run="8").key}
    records.add([RUN])
    assert list(records) == [RUN, replace(RUN, run="8", failures=1)]
    assert records.done() == {RUN.key, replace(RUN, run="8").key}
    points = point_records(tmp_path)
    points.add([replace(POINT, failure="nobody there", unanswered=True)])
    assert points.done() == set()


def test_a_line_that_a_kill_cut_short_is_written_again(tmp_path: Path) -> None:
    records = run_records(tmp_path)
    records.add([RUN, replace(RUN, run="8")])
    text = records.path.read_text()
    records.path.write_text(text[:-30])
    assert list(records) == [RUN]
    records.add([replace(RUN, run="9")])
    assert [record.run for record in records] == ["7", "9"]


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text('{"file": 1}\n')
    with pytest.raises(BenchError, match=r"runs\.jsonl line 1 is no record of a replay"):
        list(run_records(tmp_path))
    assert list(point_records(tmp_path)) == []
