"""The paper's statements, checked by hand-made numbers, by properties, by brute force and by simulation."""

import math
import random
from collections import Counter
from itertools import chain, combinations, product
from typing import ClassVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from focusctx.errors import ConfigError
from focusctx.theory import (
    binary_kl,
    bottleneck,
    bottleneck_selection,
    budget_multiplier,
    certificate,
    confidence_radius,
    interaction_bound,
    missed_span_bound,
    pinsker,
    proportional_utility,
    recovery_probability,
    rollouts_needed,
    select_under_budget,
    selection_gap,
    selection_loss,
    set_utility,
    surely_ranks_above,
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


class TestRanking:
    @given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
    def test_under_one_leak_citations_rank_spans(self, first, second, leak):
        assume(abs(first - second) > 1e-6)
        utilities = [proportional_utility(score, leak) for score in sorted((first, second))]
        assert utilities[0] < utilities[1]

    @given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
    def test_proportional_removal_on_explicit_futures(self, score, leak):
        """Rescale two futures that use the span by 1 - ρ and the others to make up for it: U is the closed form."""
        with_span = [0.3 * score, 0.7 * score, 0.4 * (1 - score), 0.6 * (1 - score)]
        factor = (1 - (1 - leak) * score) / (1 - score)
        without = [p * ((1 - leak) if place < 2 else factor) for place, p in enumerate(with_span)]
        utility = sum(p * math.log(p / q) for p, q in zip(with_span, without, strict=True))
        assert proportional_utility(score, leak) == pytest.approx(utility, abs=1e-9)

    def test_scores_rank_only_beyond_the_spread_of_impacts(self):
        assert surely_ranks_above(0.9, 0.1, impact=(0.5, 2.0))
        assert not surely_ranks_above(0.9, 0.3, impact=(0.5, 2.0))
        assert not surely_ranks_above(0.9, 0.1, impact=(0.5, 2.0), remainder=0.3)

    @given(st.floats(0.6, 1), st.floats(0, 0.3), st.floats(1, 2), st.floats(1, 2), st.floats(0, 0.2), st.data())
    def test_what_is_called_sure_holds_for_every_utility_allowed(self, high, low, one, two, remainder, data):
        impact = (min(one, two), max(one, two))
        assume(surely_ranks_above(high, low, impact=impact, remainder=remainder))
        utility = high * data.draw(st.floats(*impact)) - data.draw(st.floats(0, remainder))
        other = low * data.draw(st.floats(*impact)) - data.draw(st.floats(0, remainder))
        assert utility > other - 1e-12


class TestBottleneck:
    UTILITIES: ClassVar = {1: 2.0, 2: 1.0, 3: 0.5, 4: 0.0}
    LENGTHS: ClassVar = {1: 4.0, 2: 1.0, 3: 2.0, 4: 1.0}

    @given(st.floats(0.01, 20))
    def test_no_other_trace_has_a_lower_objective(self, beta):
        def objective(spans):
            kept, told = (sum(values[span] for span in spans) for values in (self.LENGTHS, self.UTILITIES))
            return bottleneck(kept, told, beta)

        chosen = bottleneck_selection(self.UTILITIES, self.LENGTHS, beta)
        best = min(objective(subset) for subset in subsets(self.UTILITIES))
        assert objective(chosen) == pytest.approx(best)

    @given(st.floats(0, 10))
    def test_the_multiplier_is_the_smallest_that_fits(self, budget):
        multiplier = budget_multiplier(self.UTILITIES, self.LENGTHS, budget)

        def kept(at):
            spans = [i for i, utility in self.UTILITIES.items() if utility > at * self.LENGTHS[i]]
            return sum(self.LENGTHS[i] for i in spans)

        assert kept(multiplier) <= budget
        assert multiplier == 0 or kept(multiplier * (1 - 1e-9)) > budget

    def test_one_over_the_multiplier_is_beta(self):
        multiplier = budget_multiplier(self.UTILITIES, self.LENGTHS, 1)
        assert multiplier == 0.5  # span 1 has the ratio 2/4 and goes; span 2, with 1/1, stays
        assert bottleneck_selection(self.UTILITIES, self.LENGTHS, 1 / multiplier) == {2}

    def test_spans_are_lumps(self):
        """Of 5 tokens the multiplier can use 1; the knapsack uses all: the duality gap."""
        multiplier = budget_multiplier({1: 2.0, 2: 1.0, 3: 1.5}, {1: 4, 2: 1, 3: 4}, 5)
        assert bottleneck_selection({1: 2.0, 2: 1.0, 3: 1.5}, {1: 4, 2: 1, 3: 4}, 1 / multiplier) == {1, 2}
        multiplier = budget_multiplier({1: 2.0, 2: 1.0}, {1: 4, 2: 1}, 4)
        assert bottleneck_selection({1: 2.0, 2: 1.0}, {1: 4, 2: 1}, 1 / multiplier) == {2}
        assert select_under_budget({1: 2.0, 2: 1.0}, {1: 4, 2: 1}, 4) == {1}


class TestGap:
    @given(st.lists(st.tuples(st.floats(0, 5), st.floats(-1, 1)), min_size=2, max_size=6))
    def test_choosing_by_estimates_within_epsilon_loses_at_most_twice_that(self, traces):
        """`f` is the information of a trace, `u` its total utility, at most ε̄ from it: the choice by u loses 2ε̄."""
        epsilon = max(abs(error) for _, error in traces)
        information = [value for value, _ in traces]
        chosen = max(range(len(traces)), key=lambda place: sum(traces[place]))
        assert max(information) - information[chosen] <= selection_gap(epsilon) + 1e-12

    @given(st.lists(st.floats(0.01, 1), min_size=2, max_size=5), st.data())
    def test_pinsker_holds_for_explicit_distributions(self, weights, data):
        others = data.draw(st.lists(st.floats(0.01, 1), min_size=len(weights), max_size=len(weights)))
        p = [weight / sum(weights) for weight in weights]
        q = [weight / sum(others) for weight in others]
        divergence = max(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)), 0.0)
        assert sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2 <= pinsker(divergence) + 1e-9

    def test_by_hand(self):
        assert interaction_bound(kept=10, fan_in=2, event_entropy=0.5, redundancy=0.1) == pytest.approx(11)
        assert selection_loss(0.1, 0.02) == pytest.approx((0.14, math.sqrt(0.07)))
        assert pinsker(8.0) == 1.0
        assert missed_span_bound([0.2, 0.05], residual=0.1) == pytest.approx(0.35)
        assert missed_span_bound([]) == 0.0

    def test_utilities_add_up_to_the_information_where_spans_do_not_interact(self):
        """Two independent coins, two future events, each a noisy copy of one: Σ E[U] is I(Z; Y) and ε̄ is 0."""
        flip = 0.1
        joint = {
            (a, b, x, y): 0.25 * (1 - flip if x == a else flip) * (1 - flip if y == b else flip)
            for a, b, x, y in product((0, 1), repeat=4)
        }
        one = information(joint, (0,), (2, 3), given=(1,))
        other = information(joint, (1,), (2, 3), given=(0,))
        assert one + other == pytest.approx(information(joint, (0, 1), (2, 3)))


def information(joint, first, second, given=()):
    """I(first; second | given) in nats, for a joint distribution over tuples."""

    def marginal(places):
        found = Counter()
        for outcome, p in joint.items():
            found[tuple(outcome[place] for place in places)] += p
        return found

    def entropy(places):
        return -sum(p * math.log(p) for p in marginal(places).values() if p)

    return entropy(first + given) + entropy(second + given) - entropy(first + second + given) - entropy(given)


class TestRefused:
    @pytest.mark.parametrize(
        "call",
        [
            lambda: certificate([{1}], {2}, kappa=-1),
            lambda: certificate([{1}], {2}, epsilon=math.inf),
            lambda: proportional_utility(0.5, 1.0),
            lambda: surely_ranks_above(0.5, 0.1, impact=(2, 1)),
            lambda: missed_span_bound([-1.0]),
            lambda: pinsker(math.nan),
            lambda: interaction_bound(-1, 1, 1, 1),
            lambda: selection_gap(-0.1),
            lambda: bottleneck(1, 1, 0),
            lambda: bottleneck_selection({1: 1.0}, {1: -1.0}, 1.0),
            lambda: budget_multiplier({1: 1.0}, {1: 1.0}, -1),
        ],
    )
    def test_nonsense(self, call):
        with pytest.raises(ConfigError):
            call()


def subsets(items):
    return chain.from_iterable(combinations(list(items), size) for size in range(len(items) + 1))
