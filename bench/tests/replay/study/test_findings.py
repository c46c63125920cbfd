"""The study's figures, against their definitions."""

import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.errors import BenchError
from focusctx.types import Reply
from focusctx_bench.replay.study.events import BINS, Votes, read_votes, spread_in_groups, spread_of
from focusctx_bench.replay.study.findings import (
    EventScores,
    action_divergence,
    agreements,
    auc,
    converge,
    coverage,
    hindsight,
    is_needed,
    jaccard,
    kl,
    log_log_slope,
    overlap,
    plan_divergence,
    sampled_curve,
    sets_of_spans,
    single_spans,
    spearman,
    top,
    uses,
)
from focusctx_bench.replay.study.scoring import Kind, Likelihoods, Text, likelihood_file


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
    settled = curve.settles()
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
    assert spread.near(0.3) == pytest.approx(1 / 3)
    shares = dict(zip(BINS, spread.shares(), strict=True))
    assert {name for name, share in shares.items() if share} == {"0", "0.3–0.4", "1"}
    assert sum(shares.values()) == pytest.approx(1)
    assert spread_in_groups([votes], 3).values == spread.values
    assert spread_in_groups([votes], 5).values == ()


TEXTS = (
    Text(Kind.ACTION, "open a", 2),
    Text(Kind.ACTION, "open b", 2),
    Text(Kind.PLAN, "open a\nclose a", 4),
    Text(Kind.TAKEN, "open a", 2),
)
SCORED = Likelihoods(
    place=("file.jsonl", "run", 9),
    budget=100,
    model="transformers:tiny",
    texts=TEXTS,
    full=(math.log(0.08), math.log(0.02), -4.0, -2.0),
    without={
        1: (math.log(0.05), math.log(0.05), -8.0, -5.0),
        2: (math.log(0.08), math.log(0.02), -4.0, -2.0),
        3: (math.log(0.04), math.log(0.01), -3.0, -2.5),
    },
)


def test_the_divergence_over_actions() -> None:
    found = action_divergence(SCORED)
    # .08 to .02 over two tokens each is two to one for a token.
    assert found[1] == pytest.approx(2 / 3 * math.log(4 / 3) + 1 / 3 * math.log(2 / 3))
    assert found[2] == 0.0
    assert found[3] == pytest.approx(0.0, abs=1e-12)  # both became half as likely: the choice is the same


def test_a_short_action_has_no_advantage() -> None:
    texts = (Text(Kind.ACTION, "go", 1), Text(Kind.ACTION, "go on and on", 10))
    scored = Likelihoods(("f", "r", 1), 1, "m", texts, (-1.0, -10.0), {1: (-1.0, -20.0)})
    e = math.e
    assert action_divergence(scored)[1] == pytest.approx(
        0.5 * math.log(0.5 / (e / (1 + e))) + 0.5 * math.log(0.5 / (1 / (1 + e)))
    )


def test_falls_per_token() -> None:
    assert plan_divergence(SCORED) == {1: 1.0, 2: 0.0, 3: -0.25}
    assert hindsight(SCORED) == {1: 1.5, 2: 0.0, 3: 0.25}


CHANCES = st.lists(st.floats(0.01, 1), min_size=3, max_size=3).map(lambda row: [one / sum(row) for one in row])


@given(CHANCES, CHANCES)
def test_a_divergence_is_never_negative(p: list[float], q: list[float]) -> None:
    assert kl(p, q) >= 0
    assert kl(p, p) == pytest.approx(0, abs=1e-12)


def test_the_sampled_divergence_comes_to_the_exact_one() -> None:
    curve = sampled_curve([SCORED], [1], draws=10)
    assert curve.error[0][-1] < 0.2 < curve.error[0][0]
    assert curve.jaccard[0][-1] == 1.0
    assert curve.jaccard[0][0] < 1.0


def test_lines_come_back_as_they_were(tmp_path: Path) -> None:
    file = likelihood_file(tmp_path / "likelihoods.jsonl")
    file.add(SCORED)
    [again] = file
    assert again.texts == SCORED.texts
    assert again.full == pytest.approx(SCORED.full, abs=1e-5)
    assert again.without.keys() == SCORED.without.keys()
    file.path.write_text('{"file": 1}\n{}\n')
    with pytest.raises(BenchError, match="line 1"):
        list(file)


HOLDERS = {"key_1": frozenset({1}), "key_2": frozenset({2, 3})}
EVENTS = 6


def votes(*cited: set[int]) -> Votes:
    return Votes(("f", "r", 1), (1, 2, 3, 4), tuple(map(frozenset, cited)), (frozenset(),) * len(cited), len(cited))


def test_a_set_is_needed_when_nothing_else_gives_the_fact() -> None:
    assert is_needed({1}, HOLDERS)
    assert not is_needed({2}, HOLDERS)
    assert is_needed({2, 3}, HOLDERS)
    assert not is_needed(set(), HOLDERS)


def test_a_draft_that_cites_what_is_needed() -> None:
    found = coverage("all", single_spans([votes({1}, {1})] * EVENTS, [HOLDERS] * EVENTS))
    assert found.epsilon == 0.0
    assert found.kappa == 1.0


def test_a_draft_that_cites_nothing() -> None:
    found = coverage("all", single_spans([votes(set(), set())] * EVENTS, [HOLDERS] * EVENTS))
    assert found.epsilon == 0.25  # one of four spans holds something alone
    assert found.kappa == 0.0


def test_the_line_is_above_every_bin() -> None:
    events = [votes({1}, {2}, {4}), votes({1, 2}, {3}, {4}), *[votes({4}, {1}, set())] * EVENTS]
    for found in (
        coverage("spans", single_spans(events, [HOLDERS] * len(events))),
        coverage("sets", sets_of_spans(events, [HOLDERS] * len(events))),
    ):
        assert found.bins
        assert all(found.epsilon + found.kappa * one.cited >= one.needed.mean - 1e-9 for one in found.bins)


def test_sets_of_few_events_say_nothing() -> None:
    assert coverage("few", single_spans([votes({1})], [HOLDERS])).bins == ()


def test_agreement_and_use() -> None:
    event = EventScores(
        {
            "good": {1: 0.9, 2: 0.5, 3: 0.1, 4: 0.0},
            "alike": {1: 9.0, 2: 8.0, 3: 1.0, 4: 0.5},
            "bad": {1: 0.0, 2: 0.1, 3: 0.5, 4: 0.9},
        },
        kept=2,
        used=frozenset({1, 2}),
    )
    found = {(one.left, one.right): one for one in agreements([event] * 3)}
    alike, opposite = found["good", "alike"], found["good", "bad"]
    assert alike.overlap is not None
    assert alike.overlap.mean == 1.0
    assert alike.chance == 0.5
    assert opposite.overlap is not None
    assert opposite.overlap.mean == 0.0
    assert opposite.decisions is not None
    assert opposite.decisions.mean == pytest.approx(-1)
    assert opposite.utilities is not None
    assert opposite.utilities.mean == pytest.approx(-1)
    by_name = {use.estimator: use for use in uses([event])}
    good, bad = by_name["good"], by_name["bad"]
    assert good.auc is not None
    assert good.recall is not None
    assert bad.auc is not None
    assert (good.auc.mean, good.recall.mean, bad.auc.mean) == (1.0, 1.0, 0.0)


def test_an_event_at_which_all_is_kept_tells_no_agreement() -> None:
    event = EventScores({"one": {1: 0.9, 2: 0.5}, "other": {1: 0.1, 2: 0.2}}, kept=2, used=frozenset())
    [found] = agreements([event])
    assert found.events == 0
    assert found.overlap is None
    assert {use.auc for use in uses([event])} == {None}


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
