"""How many sketches are enough, on votes whose answer is known."""

import random

import pytest

from focusctx.types import Reply
from focusctx_bench.replay.study.events import BINS, Votes, read_votes, spread_in_groups, spread_of
from focusctx_bench.replay.study.findings import converge


def drawn(chances: dict[int, float], sketches: int, seed: int = 1) -> Votes:
    chance = random.Random(seed)
    cited = tuple(
        frozenset(index for index, share in chances.items() if chance.random() < share) for _ in range(sketches)
    )
    return Votes(("file", "run", seed), tuple(chances), cited, (frozenset(),) * sketches, sketches)


def test_sketches_that_agree_settle_at_once() -> None:
    votes = drawn({1: 1.0, 2: 0.0, 3: 1.0}, 40)
    curve = converge([votes], 0.3, defensive=False, draws=5)
    assert curve.sizes == (1, 2, 3, 5, 10, 20, 30)
    assert set(curve.jaccard[0]) == {1.0}
    assert set(curve.error[0]) == {0.0}
    assert curve.settles() == 1
    assert curve.slope() is None  # no error to fall


def test_independent_sketches_fall_with_the_root_of_n() -> None:
    events = [drawn({1: 0.5, 2: 0.8, 3: 0.1, 4: 0.6}, 300, seed) for seed in range(4)]
    curve = converge(events, 0.3, defensive=False, draws=60)
    slope = curve.slope()
    assert slope is not None
    assert slope.low <= slope.mean <= slope.high
    assert slope.mean == pytest.approx(-0.5, abs=0.05)
    errors = [interval.mean for interval in curve.errors()]
    assert errors == sorted(errors, reverse=True)
    overlaps = [interval.mean for interval in curve.jaccards()]
    assert overlaps[0] < 0.8 < 0.97 < overlaps[-1]
    settled = curve.settles(0.95)
    assert settled is not None
    assert 1 < settled < 300


def test_few_sketches_tell_no_slope() -> None:
    curve = converge([drawn({1: 0.5, 2: 0.2}, 3)], 0.3, defensive=False, draws=20)
    assert curve.sizes == (1, 2, 3)
    assert not curve.enough
    assert curve.slope() is None


def test_an_event_with_few_plans_is_left_out_where_others_have_enough() -> None:
    curve = converge([drawn({1: 0.5}, 3), drawn({1: 0.5}, 40, 2), drawn({1: 0.5}, 60, 3)], 0.3, defensive=True, draws=2)
    assert len(curve.jaccard) == len(curve.error) == 2
    assert curve.sizes[-1] == 30


def test_rescues_count_for_the_defensive_decision() -> None:
    votes = read_votes(
        ("file", "run", 1),
        [1, 2, 3],
        [1, 2],
        [
            Reply("Step: go on | Depends on: [s_1, s_3]\nRescued Spans: [s_2] | Reason: it failed"),
            Reply("Step: go on | Depends on: [s_1]\nRescued Spans: [] | Reason: none"),
            Reply("I cannot plan."),
        ],
    )
    assert votes.spans == (1, 2)
    assert (len(votes.cited), votes.replies) == (2, 3)
    assert votes.utility == {1: 1.0, 2: 0.0}
    assert votes.keep(0.3, defensive=False) == {1}
    assert votes.keep(0.3, defensive=True) == {1, 2}
    assert votes.set_utility({2}) == 0.0


def test_the_last_line_of_a_reply_cut_short_does_not_vote() -> None:
    text = "Step: a | Depends on: [s_1]\nStep: b | Depends on: [s_2"
    assert read_votes(("f", "r", 1), [1, 2], [1, 2], [Reply(text)]).cited == (frozenset({1, 2}),)
    assert read_votes(("f", "r", 1), [1, 2], [1, 2], [Reply(text, truncated=True)]).cited == (frozenset({1}),)


def test_the_spread_of_utilities() -> None:
    votes = Votes(("f", "r", 1), (1, 2, 3), (frozenset({1, 2}), frozenset({1}), frozenset({1})), (frozenset(),) * 3, 3)
    spread = spread_of([votes])
    assert sorted(spread.values) == [0.0, 1 / 3, 1.0]
    assert spread.extremes == pytest.approx(2 / 3)
    assert spread.near(0.3) == pytest.approx(1 / 3)
    shares = dict(zip(BINS, spread.shares(), strict=True))
    assert {name for name, share in shares.items() if share} == {"0", "0.3–0.4", "1"}
    assert sum(shares.values()) == pytest.approx(1)
    assert spread_in_groups([votes], 3).values == spread.values
    assert spread_in_groups([votes], 5).values == ()
