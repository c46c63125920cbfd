"""The exact choice under a token limit, against brute force."""

import math
import random
import time
from fractions import Fraction
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.errors import ConfigError
from focusctx.theory import select_under_budget
from helpers.thorough import examples


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
    @settings(max_examples=examples(150))
    @given(shares_of_sketches())
    def test_shares_of_sketches_match_brute_force(self, case):
        sketches, counts, tokens, budget, required = case
        utilities = {span: count / sketches for span, count in counts.items()}
        chosen = select_under_budget(utilities, tokens, budget, required)
        assert chosen == best_by_trying_all(counts, tokens, budget, required)

    @settings(max_examples=examples(100))
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
    def test_a_hundred_spans_take_no_time(self, sketches):
        rng = random.Random(42)
        tokens = {span: max(1, int(rng.lognormvariate(5.5, 1))) for span in range(100)}
        utilities = {span: rng.randint(0, sketches) / sketches for span in tokens}
        start = time.perf_counter()
        chosen = select_under_budget(utilities, tokens, 10_000)
        assert time.perf_counter() - start < 2  # some hundredths of a second on an idle machine
        assert sum(tokens[span] for span in chosen) <= 10_000

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
