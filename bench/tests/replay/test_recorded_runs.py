"""The replay over real runs, where they are at hand: `shared` beside the repository."""

import asyncio
from pathlib import Path
from statistics import fmean

import pytest

from focusctx.jobs.engines import Meter
from focusctx.replay.methods import ReplaySettings
from focusctx.replay.runs import read_runs
from focusctx.replay.walk import WalkItem, walk_item
from focusctx_bench.replay.judge import PointItem, PointRecord, PointSettings, judge_item
from focusctx_bench.replay.sketches import read_sketches

SHARED = Path(__file__).parents[4] / "shared"

pytestmark = pytest.mark.skipif(not (SHARED / "sketches").is_dir(), reason=f"no recorded runs at {SHARED}")


@pytest.fixture(scope="module")
def judged() -> dict[str, list[PointRecord]]:
    """The 40 events for which a frontier model's sketches were recorded."""
    runs = read_runs([SHARED / "trajectories"])
    settings = PointSettings(methods=("focus-d", "fifo", "oracle"), draft=None, recorded="recorded", matched=False)
    recorded = read_sketches(SHARED / "sketches" / "sketches.jsonl")
    found: dict[str, list[PointRecord]] = {name: [] for name in settings.methods}
    for run in runs:
        own = tuple(one for one in recorded if (one.file, one.id) == (run.file, run.id))
        item = PointItem(run, 4096, settings.methods, own)
        for record in asyncio.run(judge_item(settings, item, Meter())) if own else ():
            found[record.method].append(record)
    return found


@pytest.mark.parametrize(
    ("method", "recall", "complete", "left"),
    [("focus-d", 0.89, 0.57, 0.47), ("fifo", 0.75, 0.50, 0.63), ("oracle", 1.0, 1.0, 0.46)],
)
def test_the_prototypes_figures(
    judged: dict[str, list[PointRecord]], method: str, recall: float, complete: float, left: float
) -> None:
    """As its notes have them; 5 points is two events."""
    records = judged[method]
    assert len(records) == 40
    assert not any(record.failure for record in records)
    assert not any(record.words_lost for record in records)
    assert fmean(record.recall for record in records if record.recall is not None) == pytest.approx(recall, abs=0.02)
    assert fmean(bool(record.whole) for record in records) == pytest.approx(complete, abs=0.051)
    assert fmean(record.span_left / record.span_tokens for record in records) == pytest.approx(left, abs=0.02)


def test_no_method_loses_a_word() -> None:
    settings = ReplaySettings(methods=("none", "fifo", "masking-5", "retrieval", "focus-d", "focus"))
    for file, budget in (("tau2_gpt-4.1_retail.jsonl", 1024), ("swebench_deepseek.jsonl", 4096)):
        (run,) = read_runs([SHARED / "trajectories" / file], limit=1)
        records = asyncio.run(walk_item(settings, WalkItem(run, budget, settings.methods), Meter()))
        assert {record.words_lost for record in records} == {0}
        assert {record.failures for record in records} == {0}
        assert records[0].recall in (None, 1.0)  # of a run that needs nothing, there is none
