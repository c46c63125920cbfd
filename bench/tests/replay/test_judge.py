"""Points as a job: judged once, under methods, recorded sketches and the oracle."""

from dataclasses import replace
from pathlib import Path

from focusctx.jobs.runner import Tally
from focusctx.replay.job import Plan
from focusctx_bench.replay.judge import PointSettings, judge_all, point_records
from focusctx_bench.replay.sketches import PointSketches
from replay.logs import SHOPPING, long_run, run_of

RUNS = [long_run(14, "a"), long_run(20, "b"), run_of(SHOPPING, "c")]
SETTINGS = PointSettings(methods=("focus-d", "oracle"))
PLAN = Plan(SETTINGS, RUNS, {"log.jsonl": 300}, jobs=1)


def unwatched(tally: Tally) -> None:
    pass


def test_points_are_judged_once(tmp_path: Path) -> None:
    file = point_records(tmp_path)
    judge_all(PLAN, file, unwatched)
    records = list(file)
    judge_all(PLAN, file, unwatched)
    assert list(file) == records
    oracle = [record for record in records if record.method == "oracle"]
    assert oracle
    assert all(record.there == record.needed for record in oracle)
    assert all(record.failure is None for record in records)
    assert {record.method for record in records} > {"fifo@focus-d", "retrieval@focus-d", "masking@focus-d"}


def test_recorded_sketches_are_played_at_their_points_only(tmp_path: Path) -> None:
    file = point_records(tmp_path)
    plan = "Step: go on | Depends on: [s_4]"
    recorded = PointSketches(file="log.jsonl", id="b", messages=22, spans=10, budget=300, replies=(plan,) * 3)
    settings = PointSettings(methods=("focus-o",), draft=None, recorded="recorded", matched=False)
    judge_all(replace(PLAN, settings=settings), file, unwatched, [recorded])
    (record,) = file
    spans = RUNS[1].history(22).spans
    assert (record.run, record.messages, record.draft) == ("b", 22, "recorded")
    assert record.span_left == spans[3].tokens + spans[9].tokens
    nowhere = replace(recorded, messages=24, spans=11, replies=())
    settings = replace(settings, recorded="another")
    judge_all(replace(PLAN, settings=settings), file, unwatched, [nowhere])
    failed = list(file)[-1]
    assert failed.failure is not None
    assert failed.span_left == failed.span_tokens
