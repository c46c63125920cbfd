"""The paper's statements, checked by hand-made numbers, by properties, by brute force and by simulation."""

import doctest
import math
import random
import time
from fractions import Fraction
from itertools import chain, combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.errors import ConfigError
from focusctx.theory import (
    binary_kl,
    certificate,
    confidence_radius,
    recovery_probability,
    rollouts_needed,
    select_under_budget,
    set_utility,
    threshold_bound,
    uniform_radius,
    utility_bounds,
)

spans = st.integers(1, 5000)
rollouts = st.integers(1, 5000)
margins = st.floats(0.01, 0.5)
levels = st.floats(0.01, 0.999)
shares = st.floats(0, 1)
plans = st.lists(st.frozensets(st.integers(1, 9)), min_size=1, max_size=8)


class TestRollouts:
    @pytest.mark.parametrize(
        ("m", "margin", "confidence", "expected"),
        [
            (1, 0.5, 0.95, 8),  # ln(2/.05)/(2·.25) = 7.38
            (40, 0.2, 0.95, 93),  # ln(1600)/.08 = 92.22
            (100, 0.1, 0.99, 496),  # ln(20000)/.02 = 495.2
        ],
    )
    def test_hand_computed(self, m, margin, confidence, expected):
        assert rollouts_needed(m, margin, confidence) == expected

    def test_three_sketches_by_hand(self):
        assert recovery_probability(1, 3, 0.5) == pytest.approx(1 - 2 * math.exp(-1.5))
        assert recovery_probability(40, 3, 0.2) == 0.0

    @given(spans, margins, levels)
    def test_the_answer_is_the_smallest_that_suffices(self, m, margin, confidence):
        n = rollouts_needed(m, margin, confidence)
        assert recovery_probability(m, n, margin) >= confidence - 1e-12
        if n > 1:
            assert 2 * m * math.exp(-2 * (n - 1) * margin**2) > 1 - confidence

    @given(spans, rollouts, margins)
    def test_recovery_grows_with_rollouts_and_margin_and_falls_with_spans(self, m, n, margin):
        here = recovery_probability(m, n, margin)
        assert 0 <= here <= 1
        assert recovery_probability(m, n + 1, margin) >= here
        assert recovery_probability(m, n, min(1.0, margin * 1.1)) >= here
        assert recovery_probability(m + 1, n, margin) <= here

    def test_an_exact_boundary_is_met_and_not_passed(self):
        margin = math.sqrt(math.log(2 / (1 - 0.95)) / 20)  # ten rollouts are just enough
        assert rollouts_needed(1, margin) in (10, 11)
        assert rollouts_needed(1, margin * (1 + 1e-9)) == 10

    @pytest.mark.parametrize("bad", [(0, 0.2, 0.9), (5, 0.0, 0.9), (5, 1.5, 0.9), (5, 0.2, 1.0), (5, math.nan, 0.9)])
    def test_nonsense_is_refused(self, bad):
        with pytest.raises(ConfigError):
            rollouts_needed(*bad)

    def test_zero_rollouts_are_refused(self):
        with pytest.raises(ConfigError, match="rollouts"):
            recovery_probability(5, 0, 0.2)


class TestRadius:
    def test_hand_computed(self):
        assert confidence_radius(3) == pytest.approx(0.70661, abs=1e-5)  # sqrt(ln 20 / 6)
        assert confidence_radius(150) == pytest.approx(0.09993, abs=1e-5)
        assert uniform_radius(3, 40) == pytest.approx(1.10889, abs=1e-5)  # sqrt(ln 1600 / 6)

    @given(rollouts, spans, levels)
    def test_all_spans_both_ways_is_wider_than_one_set_one_way(self, n, m, confidence):
        assert uniform_radius(n, m, confidence) > confidence_radius(n, confidence)
        assert confidence_radius(4 * n, confidence) == pytest.approx(confidence_radius(n, confidence) / 2)

    @given(spans, margins, levels)
    def test_the_radius_at_the_needed_rollouts_is_within_the_margin(self, m, margin, confidence):
        n = rollouts_needed(m, margin, confidence)
        assert uniform_radius(n, m, confidence) <= margin * (1 + 1e-9)

    @pytest.mark.parametrize("score", [0.02, 0.1, 0.3, 0.5, 0.9])
    @pytest.mark.parametrize("n", [3, 10, 50])
    def test_the_one_sided_statement_holds_in_simulation(self, score, n):
        rng = random.Random(42)
        radius = confidence_radius(n, 0.9)
        missed = sum(score > sum(rng.random() < score for _ in range(n)) / n + radius for _ in range(2000))
        assert missed / 2000 <= 0.1

    def test_the_uniform_statement_holds_in_simulation(self):
        rng = random.Random(42)
        scores = [0.05, 0.2, 0.4, 0.6, 0.8, 0.95]
        n, radius = 20, uniform_radius(20, 6, 0.9)

        def worst() -> float:
            return max(abs(sum(rng.random() < u for _ in range(n)) / n - u) for u in scores)

        assert sum(worst() > radius for _ in range(1000)) / 1000 <= 0.1

    def test_recovery_holds_in_simulation(self):
        rng = random.Random(42)
        needed, idle, threshold = [0.6] * 4, [0.0] * 8, 0.3
        n = rollouts_needed(12, 0.3, 0.8)

        def recovered() -> bool:
            kept = [sum(rng.random() < u for _ in range(n)) / n >= threshold for u in needed + idle]
            return kept == [True] * 4 + [False] * 8

        assert sum(recovered() for _ in range(500)) / 500 >= 0.8


class TestSetUtility:
    def test_spans_with_the_same_fact_count_together(self):
        cited = [{2}, {5}, {8}, {9}]
        assert [set_utility(cited, {span}) for span in (2, 5, 8, 9)] == [0.25] * 4
        assert set_utility(cited, {2, 5, 8, 9}) == 1.0

    def test_the_empty_set_is_never_needed(self):
        assert set_utility([{1}, {2}], ()) == 0.0

    def test_no_sketch_means_no_answer(self):
        with pytest.raises(ConfigError, match="at least one sketch"):
            set_utility([], {1})

    @given(plans, st.frozensets(st.integers(1, 9)))
    def test_between_the_largest_member_and_the_sum(self, cited, dropped):
        singles = [set_utility(cited, {span}) for span in dropped]
        assert max(singles, default=0) <= set_utility(cited, dropped) <= sum(singles) + 1e-12


class TestCertificate:
    def test_by_hand(self):
        given_three = certificate([{1, 4}, {1, 4, 7}, {1}], {6, 7}, m_max=2.0)
        assert given_three.set_utility == pytest.approx(1 / 3)
        assert given_three.radius == pytest.approx(0.70661, abs=1e-5)
        assert given_three.bound == 2.0  # 1/3 + 0.707 is past certainty: nothing is bounded below m_max
        assert (given_three.rollouts, given_three.confidence, given_three.m_max) == (3, 0.95, 2.0)

    def test_many_silent_sketches_bound_the_loss(self):
        assert certificate([{1}] * 150, {2}).bound == pytest.approx(0.09993, abs=1e-5)

    def test_dropping_nothing_costs_nothing(self):
        nothing = certificate([{1}], ())
        assert (nothing.bound, nothing.radius) == (0.0, 0.0)
        assert nothing.assumptions == ("Nothing was dropped.",)

    def test_it_says_what_it_rests_on(self):
        text = " ".join(certificate([{1}] * 3, {2}).assumptions)
        for words in (
            "total variation",
            "independent",
            "κ·u^q + ε",
            "optimistic",
            "does not rank",
            "3 sketches",
            "0.71",
        ):
            assert words in text

    @given(plans, st.frozensets(st.integers(1, 9)), st.frozensets(st.integers(1, 9)), levels)
    def test_dropping_more_is_never_safer(self, cited, some, more, confidence):
        smaller = certificate(cited, some, confidence=confidence).bound
        larger = certificate(cited, some | more, confidence=confidence).bound
        assert 0 <= smaller <= larger <= 1

    @pytest.mark.parametrize("m_max", [0.0, -1.0, math.inf, math.nan])
    def test_the_impact_must_be_a_bound(self, m_max):
        with pytest.raises(ConfigError, match="m_max"):
            certificate([{1}], {2}, m_max=m_max)

    def test_the_bound_holds_in_a_world_that_obeys_the_assumptions(self):
        """Futures with the set have probability u; without it u' <= u. Total variation is u - u'."""
        rng = random.Random(42)
        broken = 0
        for _ in range(2000):
            u = rng.random()
            u_without = u * rng.random()
            cited = [{1} if rng.random() < u else set() for _ in range(10)]
            broken += u - u_without > certificate(cited, {1}, confidence=0.9).bound
        assert broken / 2000 <= 0.1

    def test_the_threshold_bound(self):
        assert threshold_bound(2, 0.3) == pytest.approx(0.6)
        assert threshold_bound(10, 0.3, m_max=2.0) == 2.0
        assert threshold_bound(0, 0.3) == 0.0
        with pytest.raises(ConfigError):
            threshold_bound(-1, 0.3)


class TestUtilityBounds:
    def test_kl_by_hand(self):
        assert binary_kl(0.5, 0.25) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
        assert binary_kl(1, 0.5) == pytest.approx(math.log(2))
        assert binary_kl(0, 0.5) == pytest.approx(math.log(2))

    def test_kl_at_the_edges(self):
        assert binary_kl(0, 0) == binary_kl(1, 1) == 0.0
        assert binary_kl(0.1, 0) == binary_kl(0.9, 1) == binary_kl(0, 1) == binary_kl(1, 0) == math.inf
        for p, q in ((-0.1, 0.5), (0.5, 1.1), (math.nan, 0.5)):
            with pytest.raises(ConfigError):
                binary_kl(p, q)

    @given(shares, shares)
    def test_kl_is_a_divergence_and_obeys_pinsker(self, p, q):
        assert binary_kl(p, q) >= 2 * (p - q) ** 2 - 1e-9
        assert binary_kl(p, p) == 0

    @given(shares, st.floats(0.001, 1), st.floats(0, 5))
    def test_the_sandwich_is_in_order(self, u, part, extra):
        without = u * part
        impact = (math.log(u / without) if without > 0 else 0.0) + extra
        low, high = utility_bounds(u, without, impact)
        assert 0 <= low <= high

    def test_the_edges(self):
        assert utility_bounds(0, 0, math.inf) == (0.0, 0.0)
        assert utility_bounds(1, 0.5, math.log(2)) == pytest.approx((math.log(2), math.log(2)))
        assert utility_bounds(0.5, 0, math.inf) == (math.inf, math.inf)

    def test_contradictions_are_refused(self):
        with pytest.raises(ConfigError, match="at most score"):
            utility_bounds(0.2, 0.3, 1.0)
        with pytest.raises(ConfigError, match="impact"):
            utility_bounds(0.8, 0.2, 0.1)  # the mass alone fell by ln 4
        with pytest.raises(ConfigError, match="impact"):
            utility_bounds(0.8, 0.2, math.nan)

    def test_the_sandwich_holds_for_a_worked_world(self):
        """Four futures; the first two need the span. Removing it drains them, and only them."""
        full, without, needs = [0.3, 0.2, 0.4, 0.1], [0.1, 0.1, 0.6, 0.2], [True, True, False, False]
        ratio = [math.log(p / q) for p, q in zip(full, without, strict=True)]
        exact = sum(p * r for p, r in zip(full, ratio, strict=True))
        impact = sum(p * r for p, r, n in zip(full, ratio, needs, strict=True) if n) / 0.5
        low, high = utility_bounds(0.5, 0.2, impact)
        assert low <= exact <= high


def best_by_trying_all(values, tokens, budget, required=()):
    """The definition of the answer: every subset, by utility, then fewer tokens, then newer spans."""
    room = budget - sum(tokens[span] for span in required)
    if room < 0:
        return frozenset(required)
    optional = sorted(set(values) - set(required), reverse=True)
    subsets = chain.from_iterable(combinations(optional, size) for size in range(len(optional) + 1))
    fitting = (subset for subset in subsets if sum(tokens[span] for span in subset) <= room)
    best = max(fitting, key=lambda s: (sum(values[i] for i in s), -sum(tokens[i] for i in s), s))
    return frozenset(best) | frozenset(required)


@st.composite
def shares_of_sketches(draw):
    sketches = draw(st.integers(1, 12))
    counts = dict(enumerate(draw(st.lists(st.integers(0, sketches), max_size=12)), start=1))
    sizes = draw(st.sampled_from([st.integers(0, 6), st.integers(0, 300), st.sampled_from([0, 10, 11])]))
    tokens = {span: draw(sizes) for span in counts}
    required = draw(st.frozensets(st.sampled_from(sorted(counts)), max_size=3)) if counts else frozenset()
    return sketches, counts, tokens, draw(st.integers(0, sum(tokens.values()) + 5)), required


class TestSelectUnderBudget:
    @settings(max_examples=150)
    @given(shares_of_sketches())
    def test_shares_of_sketches_match_brute_force(self, case):
        sketches, counts, tokens, budget, required = case
        utilities = {span: count / sketches for span, count in counts.items()}
        chosen = select_under_budget(utilities, tokens, budget, required)
        assert chosen == best_by_trying_all(counts, tokens, budget, required)

    @settings(max_examples=100)
    @given(st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 50)), max_size=12), st.integers(0, 300))
    def test_any_floats_match_brute_force(self, pairs, budget):
        utilities = {span: numerator / 2**18 for span, (numerator, _) in enumerate(pairs)}
        tokens = {span: size for span, (_, size) in enumerate(pairs)}
        exact = {span: Fraction(utility) for span, utility in utilities.items()}
        assert select_under_budget(utilities, tokens, budget) == best_by_trying_all(exact, tokens, budget)

    @settings(max_examples=50)
    @given(st.lists(st.integers(1, 40), max_size=11), st.integers(0, 200))
    def test_utility_in_proportion_to_tokens_matches_brute_force(self, sizes, budget):
        tokens = dict(enumerate(sizes, start=1))
        utilities = {span: size / 100 for span, size in tokens.items()}
        assert select_under_budget(utilities, tokens, budget) == best_by_trying_all(tokens, tokens, budget)

    def test_better_than_greedy(self):
        utilities, tokens = {1: 2 / 3, 2: 2 / 3, 3: 1 / 3}, {1: 500, 2: 500, 3: 200}
        assert select_under_budget(utilities, tokens, 1000) == {1, 2}

    def test_thirds_add_up(self):
        """Three spans of 1/3 tie with one of 1; as floats, seven of 1/7 would not."""
        utilities = {**dict.fromkeys(range(1, 8), 1 / 7), 8: 1.0}
        tokens = {**dict.fromkeys(range(1, 8), 10), 8: 70}
        assert select_under_budget(utilities, tokens, 70) == {8}  # same utility, same tokens: the newer
        assert select_under_budget(utilities, tokens | {8: 71}, 71) == set(range(1, 8))  # fewer tokens

    def test_required_come_first_even_when_too_large(self):
        utilities, tokens = {1: 1.0, 2: 1.0}, {1: 10, 2: 10, 3: 500}
        assert select_under_budget(utilities, tokens, 100, required={3}) == {3}
        assert select_under_budget(utilities, tokens, 510, required={3}) == {2, 3}
        assert select_under_budget(utilities, tokens, -5) == set()

    def test_useless_spans_stay_out_unless_free(self):
        assert select_under_budget({1: 0.0, 2: 0.0}, {1: 5, 2: 0}, 100) == {2}

    def test_the_order_of_the_input_does_not_matter(self):
        rng = random.Random(42)
        pairs = [(span, rng.randint(0, 3) / 3, rng.randint(1, 30)) for span in range(60)]
        answers = set()
        for _ in range(5):
            rng.shuffle(pairs)
            answers.add(select_under_budget({s: u for s, u, _ in pairs}, {s: t for s, _, t in pairs}, 300))
        assert len(answers) == 1

    @pytest.mark.parametrize("sketches", [3, 20])
    def test_a_thousand_spans_take_no_time(self, sketches):
        rng = random.Random(42)
        tokens = {span: max(1, int(rng.lognormvariate(5.5, 1))) for span in range(1000)}
        utilities = {span: rng.randint(0, sketches) / sketches for span in tokens}
        start = time.perf_counter()
        chosen = select_under_budget(utilities, tokens, 100_000)
        assert time.perf_counter() - start < 2  # some hundredths of a second on an idle machine
        assert sum(tokens[span] for span in chosen) <= 100_000

    @pytest.mark.parametrize(
        ("utilities", "tokens", "required"),
        [
            ({1: 0.5}, {}, ()),
            ({}, {}, (1,)),
            ({1: -0.1}, {1: 5}, ()),
            ({1: math.nan}, {1: 5}, ()),
            ({1: 1}, {1: -5}, ()),
        ],
    )
    def test_nonsense_is_refused(self, utilities, tokens, required):
        with pytest.raises(ConfigError):
            select_under_budget(utilities, tokens, 10, required)


def test_the_examples_in_the_docs():
    page = Path(__file__).parent.parent / "docs" / "theory.md"
    outcome = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert outcome.attempted > 10
    assert outcome.failed == 0
