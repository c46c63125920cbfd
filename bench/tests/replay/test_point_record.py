"""Records of points: what they say, and that they come back as they were."""

from dataclasses import replace
from pathlib import Path

from focusctx.types import Usage
from focusctx_bench.replay.judge import PointRecord, point_records

POINT = PointRecord(
    file="log.jsonl", run="7", messages=12, method="focus", draft="", budget=100, event=True, span_tokens=100,
    span_left=40, history_tokens=200, sent_tokens=140, needed=5, there=4, words_lost=0, usage=Usage(), seconds=0.1,
)  # fmt: skip


def test_figures_of_a_point() -> None:
    assert (POINT.recall, POINT.whole) == (0.8, False)
    assert (POINT.span_share, POINT.history_share) == (0.4, 0.7)
    nothing_needed = replace(POINT, needed=0, there=0)
    assert nothing_needed.recall is nothing_needed.whole is None


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    other = replace(POINT, messages=14, failure="no answer", unanswered=True)
    point_records(tmp_path).add(POINT, other)
    assert list(point_records(tmp_path)) == [POINT, other]
    assert POINT.key != other.key
