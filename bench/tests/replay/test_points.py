"""Where a run's points are, and what is judged there."""

import pytest

from focusctx.errors import BenchError
from focusctx.pipeline.rebuild import rebuild
from focusctx.replay.facts import Evidence
from focusctx_bench.replay.points import point_at, points_of
from replay.logs import SHOPPING, chat, long_run, run_of, step


def test_a_point_where_the_history_first_passes_each_multiple() -> None:
    evidence = Evidence(long_run(40))
    points = points_of(evidence, 300)
    sizes = {action.messages: evidence.tokens_before(action.messages) for action in evidence.actions}
    assert [point.budget for point in points] == [300, 300, 300]
    for point, multiple in zip(points, (1, 2, 4), strict=True):
        assert sizes[point.messages] > multiple * 300 >= sizes[point.messages - 2]
        assert point.history.tokens == sizes[point.messages]
    assert points_of(evidence, 10**6) == []


def test_one_point_where_several_multiples_are_passed_at_once() -> None:
    evidence = Evidence(run_of(SHOPPING))
    assert [point.messages for point in points_of(evidence, 1)] == [2]


def test_what_a_view_keeps() -> None:
    point = point_at(Evidence(run_of(SHOPPING)), 8, 100)
    spans = point.history.spans
    whole = point.judge(point.sent)
    assert (whole.needed, whole.there, whole.left) == (2, 2, point.span_tokens)
    without_first = point.judge(rebuild(point.history, [2, 3]))
    assert (without_first.needed, without_first.there) == (2, 1)  # span 2 names one item, too
    assert without_first.left == spans[1].tokens + spans[2].tokens
    assert point.judge(point.sent[2:]).words_lost == 2


def test_a_record_keeps_only_what_it_shows() -> None:
    pages = "\n".join(f"page {number} has key_{number:04} and a good many other words" for number in range(40))
    first, second = step(1, {"page": "first"}, pages), step(2, {"use": "key_0007"}, "ok")
    point = point_at(Evidence(run_of(chat(first, second, task="Read."))), 4, 100)
    whole = point.judge(point.sent)
    assert (whole.needed, whole.there) == (1, 1)
    record = point.judge(rebuild(point.history, [], {1: frozenset()}))
    assert 0 < record.left < whole.left / 4
    assert record.there == 0
    seventh = next(
        one.number for one in point.history.outlines.of(point.history.spans[0]).passages if "key_0007" in one.text
    )
    excerpt = point.judge(rebuild(point.history, [], {1: frozenset({seventh})}))
    assert record.left < excerpt.left < whole.left
    assert excerpt.there == 1


def test_a_point_beyond_the_run_is_another_file() -> None:
    with pytest.raises(BenchError, match="is it another file"):
        point_at(Evidence(run_of(SHOPPING)), 99, 100)
