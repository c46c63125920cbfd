"""The paper's bounds as functions: how many sketches are enough, what a drop can cost, what fits a budget.

Pure functions of numbers, no model needed. Letters as in the paper: m spans, N rollouts, margin γ,
threshold τ, dependency score u, counterfactual utility U. docs/theory.md has a worked example.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from .errors import ConfigError
from .types import Certificate


def rollouts_needed(spans: int, margin: float, confidence: float = 0.95) -> int:
    """The smallest N for which all `spans` are sorted rightly with this confidence: `2m·exp(-2Nγ²) <= 1 - confidence`.

    `margin` is γ: how far every span's true score lies from the threshold.
    """
    _check_spans(spans)
    _check_margin(margin)
    _check_confidence(confidence)
    allowed = 1 - confidence
    rollouts = math.ceil(math.log(2 * spans / allowed) / (2 * margin**2))
    # The closed form can be one off where rounding meets a whole number.
    while _failure(spans, rollouts, margin) > allowed:
        rollouts += 1
    while rollouts > 1 and _failure(spans, rollouts - 1, margin) <= allowed:
        rollouts -= 1
    return rollouts


def recovery_probability(spans: int, rollouts: int, margin: float) -> float:
    """At least this likely, thresholding keeps every span the future needs: `max(0, 1 - 2m·exp(-2Nγ²))`."""
    _check_spans(spans)
    _check_rollouts(rollouts)
    _check_margin(margin)
    return max(0.0, 1 - _failure(spans, rollouts, margin))


def confidence_radius(rollouts: int, confidence: float = 0.95) -> float:
    """How far the true `u_S` of ONE set, fixed before sampling, can lie above `û_S`: `sqrt(ln(1/α) / 2N)`.

    One-sided, because only an underestimate is dangerous. For all spans at once: `uniform_radius`.
    """
    _check_rollouts(rollouts)
    _check_confidence(confidence)
    return math.sqrt(-math.log(1 - confidence) / (2 * rollouts))


def uniform_radius(rollouts: int, spans: int, confidence: float = 0.95) -> float:
    """How far any of m spans' `u_i` can lie from `û_i`, either way, all at once: `sqrt(ln(2m/α) / 2N)`."""
    _check_rollouts(rollouts)
    _check_spans(spans)
    _check_confidence(confidence)
    return math.sqrt(math.log(2 * spans / (1 - confidence)) / (2 * rollouts))


def set_utility(cited: Sequence[Collection[int]], spans: Collection[int]) -> float:
    """`û_S`: the share of sketches that cite any span of the set. `cited` holds one citation set per sketch."""
    if not cited:
        raise ConfigError("the utility of a set needs at least one sketch")
    wanted = frozenset(spans)
    return sum(not wanted.isdisjoint(sketch) for sketch in cited) / len(cited)


def certificate(
    cited: Sequence[Collection[int]],
    dropped: Collection[int],
    *,
    confidence: float = 0.95,
    m_max: float = 1.0,
) -> Certificate:
    """The bound on what dropping the set can change: `m_max · min(1, û_S + radius)`, with what it rests on.

    For a bound without the remark on selection, pass fresh sketches, sampled after the set was chosen.
    """
    _check_impact(m_max)
    utility = set_utility(cited, dropped)
    rollouts = len(cited)
    # No future can miss the empty set: its score is 0 and not an estimate.
    radius = confidence_radius(rollouts, confidence) if dropped else 0.0
    return Certificate(
        set_utility=utility,
        radius=radius,
        confidence=confidence,
        rollouts=rollouts,
        m_max=m_max,
        bound=m_max * min(1.0, utility + radius),
        assumptions=_assumptions(rollouts, radius, m_max) if dropped else ("Nothing was dropped.",),
    )


def threshold_bound(dropped: int, threshold: float, m_max: float = 1.0) -> float:
    """The bound that the threshold alone gives: `m_max · min(1, τ·|S|)`. Weaker than any good certificate."""
    _check_impact(m_max)
    if dropped < 0:
        raise ConfigError(f"dropped must be 0 or more, got {dropped}")
    _check_share("threshold", threshold)
    return m_max * min(1.0, threshold * dropped)


def binary_kl(p: float, q: float) -> float:
    """`d(p || q)`: the divergence of two coins in nats; infinite where q rules out what p allows."""
    _check_share("p", p)
    _check_share("q", q)
    # Rounding can leave a tiny negative sum for p close to q; a divergence has none.
    return max(0.0, _kl_term(p, q) + _kl_term(1 - p, 1 - q))


def utility_bounds(score: float, score_without: float, impact: float) -> tuple[float, float]:
    """The span of possible U for a span: `d(u || u') <= U <= u·m`.

    `score` is u, `score_without` is u' (the score once the span is gone, never more than u), `impact` is m,
    in nats. m is at least ln(u/u'), so a smaller one contradicts the two scores and is an error.
    """
    _check_share("score", score)
    _check_share("score_without", score_without)
    if score_without > score:
        raise ConfigError(f"score_without must be at most score, got {score_without} > {score}")
    if score == 0:
        return 0.0, 0.0
    least = math.log(score / score_without) if score_without > 0 else math.inf
    # A caller who computes ln(u/u') in another order may land a rounding error below it.
    if not impact >= least * (1 - 1e-12):
        raise ConfigError(f"impact must be at least ln(score / score_without) = {least:.6g}, got {impact}")
    lower = binary_kl(score, score_without)
    return lower, max(lower, score * impact)


def select_under_budget(
    utilities: Mapping[int, float],
    tokens: Mapping[int, int],
    budget: int,
    required: Collection[int] = (),
) -> frozenset[int]:
    """The spans with the highest total utility that fit: an exact 0/1 knapsack, not a greedy guess.

    Keys are span indices. `required` spans are in even if they alone exceed the budget; what they leave is
    shared among the rest. Equal totals are settled by fewer tokens, then by newer spans (the set that holds
    the newest span in which two sets differ), so the answer is unique. A span without use is kept only when
    it costs nothing.
    """
    _check_knapsack(utilities, tokens, required)
    chosen = frozenset(required)
    room = budget - sum(tokens[index] for index in chosen)
    if room < 0:
        return chosen
    optional = [index for index in utilities if index not in chosen]
    free = frozenset(index for index in optional if tokens[index] == 0)
    worth = [index for index in optional if utilities[index] > 0 and 0 < tokens[index] <= room]
    return chosen | free | _knapsack(_items(worth, utilities, tokens), room)


class _Item(NamedTuple):
    span: int
    tokens: int
    utility: int
    bit: int
    """Newer spans have higher bits: of two sets, the one with the larger sum of bits has the newer spans."""


_State = tuple[int, int, int]
"""(tokens, -utility, -bits) of a partial choice: smaller is better in each, and in this order when sorted."""


def _items(indices: Collection[int], utilities: Mapping[int, float], tokens: Mapping[int, int]) -> list[_Item]:
    """The spans with utilities as whole numbers, so that sums and ties are exact."""
    shares = {index: _exact(utilities[index]) for index in indices}
    scale = math.lcm(*(share.denominator for share in shares.values()))
    return [
        _Item(index, tokens[index], int(shares[index] * scale), 1 << place)
        for place, index in enumerate(sorted(indices))
    ]


def _exact(utility: float) -> Fraction:
    """The fraction k/N a float stands for: three times 1/3 must tie with 1. Other floats keep their own value."""
    simple = Fraction(utility).limit_denominator(1000)
    return simple if float(simple) == utility else Fraction(utility)


def _knapsack(items: list[_Item], room: int) -> frozenset[int]:
    """The best subset, by dynamic programming over the few items whose place is in doubt.

    Filling by utility per token up to the first item that no longer fits (the break) is optimal but for the
    room left over. Each item moved against that rule loses a known share, so only choices that lose less
    than the best one found so far are followed; the others cannot win. Of two partial choices the one that
    is no better in utility and no cheaper is given up. With utilities k/N the survivors are a handful.
    """
    ranked = sorted(items, key=lambda item: (Fraction(-item.utility, item.tokens), -item.span))
    filled, cut = _fill(ranked, room)
    if cut == len(ranked):
        return frozenset(item.span for item in ranked)
    slope = ranked[cut]
    step = math.gcd(*(item.utility for item in ranked))

    def value(state: _State) -> int:
        """The most a state can still be worth with the room it leaves, in units of 1/slope.tokens."""
        return -state[1] * slope.tokens + (room - state[0]) * slope.utility

    def needed(best: _State) -> int:
        """The value a state needs to tie with the best: its utility at its tokens, or one step more at any."""
        return min(value(best), (step - best[1]) * slope.tokens)

    states = [filled]
    best = _greedy(filled, ranked[cut:], room)
    inside = {item.span for item in ranked[:cut]}
    in_doubt = sorted((abs(i.utility * slope.tokens - i.tokens * slope.utility), i.span, i) for i in ranked)
    for loss, _, item in in_doubt:
        if value(filled) - loss < needed(best):
            break  # moving this item, or any after it, costs more than the best choice leaves to gain
        states = _undominated(states, _moved(states, item, -1 if item.span in inside else 1))
        best = min([best, *(s for s in states if s[0] <= room)], key=lambda s: (s[1], s[0], s[2]))
        floor = needed(best)
        states = [state for state in states if value(state) >= floor]
    return frozenset(item.span for item in items if -best[2] & item.bit)


def _fill(ranked: list[_Item], room: int) -> tuple[_State, int]:
    """The leading items that fit, and the place of the first that does not."""
    state = (0, 0, 0)
    for place, item in enumerate(ranked):
        if state[0] + item.tokens > room:
            return state, place
        state = _add(state, item)
    return state, len(ranked)


def _greedy(state: _State, rest: list[_Item], room: int) -> _State:
    """A good choice to measure others against: whatever of the rest still fits, best first."""
    for item in rest:
        if state[0] + item.tokens <= room:
            state = _add(state, item)
    return state


def _add(state: _State, item: _Item, sign: int = 1) -> _State:
    return state[0] + sign * item.tokens, state[1] - sign * item.utility, state[2] - sign * item.bit


def _moved(states: list[_State], item: _Item, sign: int) -> list[_State]:
    return [_add(state, item, sign) for state in states]


def _undominated(left: list[_State], right: list[_State]) -> list[_State]:
    """Both lists in one, without any state that has no more utility than a cheaper one."""
    front: list[_State] = []
    for state in sorted(left + right):
        if not front or state[1] < front[-1][1]:
            front.append(state)
    return front


def _failure(spans: int, rollouts: int, margin: float) -> float:
    return 2 * spans * math.exp(-2 * rollouts * margin**2)


def _kl_term(p: float, q: float) -> float:
    if p == 0:
        return 0.0
    return p * math.log(p / q) if q > 0 else math.inf


def _assumptions(rollouts: int, radius: float, m_max: float) -> tuple[str, ...]:
    return (
        "Dropping spans only makes futures that use them less likely and the others more likely.",
        f"Where a future needs a dropped span, the loss is at most m_max = {m_max:g}"
        " (1 is always enough when loss is measured as total variation).",
        f"The {rollouts} sketches are independent samples of the draft, and each cites all the spans its plan needs.",
        "The bound speaks of the future as the draft sees it. It carries over to the agent only if the agent"
        " needs the dropped set at most κ times as often as the draft says, plus ε: u^π <= κ·u^q + ε."
        " Neither κ nor ε is measured here.",
        "If the dropped set was chosen with these same sketches, its utility is an optimistic estimate;"
        " the confidence level is exact only for a set fixed beforehand or checked with fresh sketches.",
        "A low score bounds the loss; it does not rank spans: a span cited more often may still matter less.",
        f"With {rollouts} sketches the radius alone is {radius:.2f}, whatever they cite.",
    )


def _check_knapsack(utilities: Mapping[int, float], tokens: Mapping[int, int], required: Collection[int]) -> None:
    for index in (*utilities, *required):
        if index not in tokens:
            raise ConfigError(f"span {index} has no token count")
        if tokens[index] < 0:
            raise ConfigError(f"tokens must be 0 or more, got {tokens[index]} for span {index}")
    for index, utility in utilities.items():
        if not 0 <= utility < math.inf:
            raise ConfigError(f"utilities must be 0 or more and finite, got {utility} for span {index}")


def _check_spans(spans: int) -> None:
    if spans < 1:
        raise ConfigError(f"spans must be 1 or more, got {spans}")


def _check_rollouts(rollouts: int) -> None:
    if rollouts < 1:
        raise ConfigError(f"rollouts must be 1 or more, got {rollouts}")


def _check_margin(margin: float) -> None:
    # Below a millionth the answer is more than 10¹² rollouts and floats lose count.
    if not 1e-6 <= margin <= 1:
        raise ConfigError(f"margin must be at least 1e-6 and at most 1, got {margin}")


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence must be between 0 and 1, got {confidence}")


def _check_impact(m_max: float) -> None:
    if not 0 < m_max < math.inf:
        raise ConfigError(f"m_max must be above 0 and finite, got {m_max}")


def _check_share(name: str, share: float) -> None:
    if not 0 <= share <= 1:
        raise ConfigError(f"{name} must be between 0 and 1, got {share}")
