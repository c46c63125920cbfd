"""The replay over real runs, where they are at hand: `shared` beside the repository."""

import asyncio
from pathlib import Path
from statistics import fmean

import pytest

from focusctx.replay.methods import Setup
from focusctx.replay.record import PointRecord
from focusctx.replay.runner import Plan
from focusctx.replay.runs import read_runs
from focusctx.replay.sketches import Sketches
from focusctx.replay.work import point_unit, walk_unit

SHARED = Path(__file__).parents[3] / "shared"

pytestmark = pytest.mark.skipif(not (SHARED / "sketches").is_dir(), reason=f"no recorded runs at {SHARED}")


@pytest.fixture(scope="module")
def judged() -> dict[str, list[PointRecord]]:
    """The 40 events for which a frontier model's sketches were recorded."""
    runs = read_runs([SHARED / "trajectories"])
    setup = Setup(methods=("focus-d", "fifo", "oracle"), draft=None, recorded="recorded", matched=False)
    recorded = list(Sketches(SHARED / "sketches" / "sketches.jsonl"))
    plan = Plan(setup, runs, dict.fromkeys({run.file for run in runs}, 4096), recorded)
    found: dict[str, list[PointRecord]] = {name: [] for name in setup.methods}
    for unit in plan.units():
        for record in asyncio.run(point_unit(setup, unit)) if unit.recorded else ():
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
    assert fmean(bool(record.complete) for record in records) == pytest.approx(complete, abs=0.051)
    assert fmean(record.span_left / record.span_tokens for record in records) == pytest.approx(left, abs=0.02)


def test_no_method_loses_a_word() -> None:
    setup = Setup(methods=("none", "fifo", "masking-5", "retrieval", "focus-d", "focus"))
    for file, budget in (("tau2_gpt-4.1_retail.jsonl", 1024), ("swebench_deepseek.jsonl", 4096)):
        (run,) = read_runs([SHARED / "trajectories" / file], limit=1)
        (unit,) = Plan(setup, [run], {file: budget}).units()
        records = asyncio.run(walk_unit(setup, unit))
        assert {record.words_lost for record in records} == {0}
        assert {record.failures for record in records} == {0}
        assert records[0].recall in (None, 1.0)  # of a run that needs nothing, there is none
