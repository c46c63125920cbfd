"""Scores, thresholds, pins."""

from hypothesis import given
from hypothesis import strategies as st

from focusctx import FocusConfig, History, Span
from focusctx.pipeline.keep import score, select
from focusctx.pipeline.must_stay import pinned_spans
from focusctx.types import Rescue, Sketch, Step


def sketch(*cites: int, rescued: tuple[int, ...] = (), problem: str | None = None) -> Sketch:
    return Sketch("", (Step("go", cites),), (Rescue(rescued, "risk"),), problem=problem)


def spans(count: int) -> History:
    return History("g", tuple(Span(i) for i in range(1, count + 1)))


def test_utility_is_the_share_of_sketches_that_cite() -> None:
    scores = score([sketch(1, 2), sketch(2, 2), sketch(3, rescued=(4,))], {})
    assert scores.utility == {1: 1 / 3, 2: 2 / 3, 3: 1 / 3}
    assert scores.rescue == {4: 1 / 3}


def test_a_span_counts_for_its_passages_and_a_passage_for_its_record() -> None:
    first = Sketch("", (Step("a", (1,), ((2, 3),)),))
    second = Sketch("", (Step("b", (), ((2, 3), (2, 1))), Step("c", (), ((1, 2),))))
    scores = score([first, second], {1: [1, 2], 2: [1, 2, 3]})
    assert scores.utility == {1: 1.0, 2: 1.0}
    assert scores.cited == {(1, 0): 1.0, (1, 1): 0.5, (1, 2): 1.0, (2, 0): 1.0, (2, 1): 0.5, (2, 3): 1.0}
    rescues = [Sketch("", (), (Rescue((), "risk", ((2, 1),)),)), Sketch("", (Step("a", ()),))]
    assert score(rescues, {2: [1, 2]}).rescued == {(2, 0): 0.5, (2, 1): 0.5}
    assert score(rescues, {2: [1, 2]}).rescue == {2: 0.5}


def test_sketches_that_are_no_plan_do_not_vote() -> None:
    assert score([sketch(1), sketch(2, problem="nonsense")], {}).utility == {1: 1.0}


def test_keep_is_cited_or_rescued_or_pinned() -> None:
    history = spans(6)
    scores = score([sketch(1), sketch(1, rescued=(2,)), sketch(3, rescued=(1,))], {})
    chosen = select(history, scores, {6: "newest span"}, FocusConfig())
    assert chosen.kept == {1, 2, 3, 6}
    assert chosen.useful == {1, 3}
    assert chosen.rescued == {2}
    optimistic = select(history, scores, {6: "newest span"}, FocusConfig(defensive=False))
    assert optimistic.kept == {1, 3, 6}
    assert optimistic.rescued == set()


def test_the_threshold_is_inclusive() -> None:
    scores = score([sketch(1), sketch(2)], {})
    assert select(spans(2), scores, {}, FocusConfig(threshold=0.5)).kept == {1, 2}
    assert select(spans(2), scores, {}, FocusConfig(threshold=0.51)).kept == set()


def test_the_newest_the_waiting_and_the_users_choice_are_pinned() -> None:
    history = History("g", (Span(1), Span(2, waiting=True), Span(3, action="pay()"), Span(4)))
    pinned = pinned_spans(history, lambda span: "pay" in span.action)
    assert set(pinned) == {2, 3, 4}
    assert pinned[4] == "newest span"


def test_a_step_keeps_the_reasoning_it_goes_on_from() -> None:
    history = History("g", (Span(1), Span(2, needs=1), Span(3, needs=1), Span(4)))
    chosen = select(history, score([sketch(3)], {}), pinned_spans(history, None), FocusConfig())
    assert chosen.kept == {1, 3, 4}
    assert "s_3" in chosen.pinned[1]


@given(st.lists(st.tuples(st.sets(st.integers(1, 9)), st.sets(st.integers(1, 9))), min_size=1, max_size=7), st.data())
def test_a_higher_threshold_keeps_no_more(votes: list[tuple[set[int], set[int]]], data: st.DataObject) -> None:
    scores = score([sketch(*sorted(cited), rescued=tuple(rescued)) for cited, rescued in votes], {})
    low, high = sorted((data.draw(st.floats(0.01, 1)), data.draw(st.floats(0.01, 1))))
    keep = [select(spans(9), scores, {9: "newest"}, FocusConfig(threshold=t)).kept for t in (low, high)]
    assert keep[1] <= keep[0]
