"""Small statistics, against values known by hand and against their own definitions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx_bench.replay.study.findings import auc, jaccard, log_log_slope, overlap, spearman, top

SETS = st.frozensets(st.integers(1, 8))
NUMBERS = st.lists(st.integers(0, 5).map(float), min_size=2, max_size=12)


def test_sets() -> None:
    assert jaccard({1, 2, 3}, {2, 3, 4}) == 0.5
    assert jaccard(set(), set()) == 1.0
    assert overlap({1, 2}, {2, 3, 4, 5}) == 0.5
    assert overlap(set(), {1}) is None


@given(SETS, SETS)
def test_likeness_is_mutual_and_whole_only_for_equals(left: frozenset[int], right: frozenset[int]) -> None:
    assert jaccard(left, right) == jaccard(right, left)
    assert (jaccard(left, right) == 1) == (left == right)
    both = overlap(left, right)
    assert both is None or both >= jaccard(left, right)


def test_spearman_by_hand() -> None:
    assert spearman([1, 2, 3], [10, 20, 90]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 2, 3, 4], [2, 1, 4, 3]) == pytest.approx(0.6)
    assert spearman([1, 1, 1], [1, 2, 3]) is None


@given(NUMBERS)
def test_auc_counts_pairs(numbers: list[float]) -> None:
    hits = [place % 2 == 0 for place in range(len(numbers))]
    won = [
        (one > other) + (one == other) / 2
        for one, hit in zip(numbers, hits, strict=True)
        if hit
        for other, also in zip(numbers, hits, strict=True)
        if not also
    ]
    assert auc(numbers, hits) == pytest.approx(sum(won) / len(won))


def test_auc_needs_both_kinds() -> None:
    assert auc([1, 2], [True, True]) is None
    assert auc([1, 2], [False, False]) is None


@given(st.floats(-1.5, 1.5), st.floats(0.1, 10))
def test_a_power_law_has_its_own_slope(power: float, scale: float) -> None:
    sizes = [1, 3, 10, 100]
    assert log_log_slope(sizes, [scale * size**power for size in sizes]) == pytest.approx(power, abs=1e-9)


def test_no_slope_of_one_point() -> None:
    assert log_log_slope([1, 2], [0.5, 0.0]) is None


def test_the_best_spans_newest_first_among_equals() -> None:
    assert top({1: 0.5, 2: 0.9, 3: 0.5, 4: 0.1}, 2) == {2, 3}
    assert top({1: math.inf}, 5) == {1}
