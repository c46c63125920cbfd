"""Spans below the threshold that are needed together come back."""

from hypothesis import given
from hypothesis import strategies as st

from focusctx import FocusConfig, History, Span
from focusctx.pipeline.keep import select
from focusctx.pipeline.repair import repair
from focusctx.pipeline.score import score
from focusctx.theory import set_utility
from focusctx.types import Sketch, Step


def plans(*cited: set[int]) -> list[Sketch]:
    return [Sketch("", (Step("go", tuple(sorted(cites))),)) for cites in cited]


def spans(count: int) -> History:
    return History("g", tuple(Span(index, tokens=10 * index) for index in range(1, count + 1)))


def repaired(
    history: History, sketches: list[Sketch], tolerance: float | None, threshold: float = 0.5
) -> frozenset[int]:
    config = FocusConfig(threshold=threshold, repair=tolerance)
    return repair(history, select(history, score(sketches), {}, config), sketches, config).kept


def test_two_spans_that_share_a_fact_look_useless_alone() -> None:
    """Either of them would do, so each sketch cites one: the paper's reason to look at sets."""
    sketches = plans({1}, {2}, {1}, {2}, {3})
    assert repaired(spans(3), sketches, None) == set()
    assert repaired(spans(3), sketches, 1.0) == set()
    assert repaired(spans(3), sketches, 0.6) == {1}, "of two that are cited as often, the smaller one"
    assert repaired(spans(3), sketches, 0.2) == {1, 2}
    assert repaired(spans(3), sketches, 0.0) == {1, 2, 3}


def test_what_comes_back_says_why() -> None:
    history, sketches = spans(2), plans({1}, {2}, set())
    config = FocusConfig(threshold=0.5, repair=0.5)
    found = repair(history, select(history, score(sketches), {}, config), sketches, config)
    assert found.notes == {1: "too many sketches cite a dropped span"}


@given(st.lists(st.sets(st.integers(1, 9)), min_size=1, max_size=7), st.floats(0, 1), st.floats(0.01, 1))
def test_the_drop_set_is_within_the_tolerance_and_nothing_uncited_comes_back(
    cited: list[set[int]], tolerance: float, threshold: float
) -> None:
    history, sketches = spans(9), plans(*cited)
    kept = repaired(history, sketches, tolerance, threshold)
    assert set_utility([plan.cited for plan in sketches], set(range(1, 10)) - kept) <= tolerance
    assert kept <= set().union(*cited)
