"""The paper's statements as functions.

They answer how many sketches are enough, how much a drop can cost, and how far a choice by utility is from the best.
Pure functions of numbers; no model is needed. Letters as in the paper: m spans, N rollouts, margin γ, threshold τ,
dependency score u, counterfactual utility U. docs/theory.md has worked examples.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from .errors import ConfigError
from .types import Certificate

if TYPE_CHECKING:
    from fractions import Fraction


def rollouts_needed(spans: int, margin: float, confidence: float = 0.95) -> int:
    """Smallest N that classifies all `spans` correctly with this confidence: `2m·exp(-2Nγ²) <= 1 - confidence`.

    `margin` is γ: how far every span's true score is from the threshold.
    """
    _check_count("spans", spans)
    _check_margin(margin)
    _check_confidence(confidence)
    allowed = 1 - confidence
    rollouts = math.ceil(math.log(2 * spans / allowed) / (2 * margin**2))
    # Rounding can put the closed form off by one.
    while _failure(spans, rollouts, margin) > allowed:
        rollouts += 1
    while rollouts > 1 and _failure(spans, rollouts - 1, margin) <= allowed:
        rollouts -= 1
    return rollouts


def recovery_probability(spans: int, rollouts: int, margin: float) -> float:
    """Lower bound on the probability that thresholding keeps every needed span: `max(0, 1 - 2m·exp(-2Nγ²))`."""
    _check_count("spans", spans)
    _check_count("rollouts", rollouts)
    _check_margin(margin)
    return max(0.0, 1 - _failure(spans, rollouts, margin))


def confidence_radius(rollouts: int, confidence: float = 0.95) -> float:
    """Most by which the true `u_S` of ONE set, fixed before sampling, can exceed `û_S`: `sqrt(ln(1/α) / 2N)`.

    One-sided, because only an underestimate is dangerous. For all spans at once: `uniform_radius`.
    """
    _check_count("rollouts", rollouts)
    _check_confidence(confidence)
    return math.sqrt(-math.log(1 - confidence) / (2 * rollouts))


def uniform_radius(rollouts: int, spans: int, confidence: float = 0.95) -> float:
    """Most by which `u_i` can differ from `û_i`, for all of m spans at once: `sqrt(ln(2m/α) / 2N)`."""
    _check_count("rollouts", rollouts)
    _check_count("spans", spans)
    _check_confidence(confidence)
    return math.sqrt(math.log(2 * spans / (1 - confidence)) / (2 * rollouts))


def set_utility(cited: Sequence[Collection[Hashable]], spans: Collection[Hashable]) -> float:
    """`û_S`: the share of sketches that cite any span (or passage) of the set, one citation set per sketch."""
    if not cited:
        raise ConfigError("the utility of a set needs at least one sketch")
    wanted = frozenset(spans)
    return sum(not wanted.isdisjoint(sketch) for sketch in cited) / len(cited)


def certificate(
    cited: Sequence[Collection[Hashable]],
    dropped: Collection[Hashable],
    *,
    confidence: float = 0.95,
    m_max: float = 1.0,
    kappa: float = 1.0,
    epsilon: float = 0.0,
) -> Certificate:
    """Bound what dropping the set can change: `m_max · min(1, κ·(û_S + radius) + ε)`, with its assumptions.

    `kappa` and `epsilon` describe how well the draft covers the agent's needs: `u^π <= κ·u^q + ε`. The defaults trust
    the draft. For a bound without the caveat about selection, pass fresh sketches, sampled after the set was chosen.
    """
    _check_positive("m_max", m_max)
    _check_amount("kappa", kappa)
    _check_amount("epsilon", epsilon)
    utility = set_utility(cited, dropped)
    rollouts = len(cited)
    # The empty set cannot be missed: its score is exactly 0, not an estimate.
    radius = confidence_radius(rollouts, confidence) if dropped else 0.0
    return Certificate(
        set_utility=utility,
        radius=radius,
        confidence=confidence,
        rollouts=rollouts,
        m_max=m_max,
        bound=m_max * min(1.0, kappa * (utility + radius) + epsilon) if dropped else 0.0,
        assumptions=_assumptions(rollouts, radius, m_max, kappa, epsilon) if dropped else ("Nothing was dropped.",),
        kappa=kappa,
        epsilon=epsilon,
    )


def threshold_bound(dropped: int, threshold: float, m_max: float = 1.0) -> float:
    """Bound given by the threshold alone: `m_max · min(1, τ·|S|)`. Weaker than any good certificate."""
    _check_positive("m_max", m_max)
    if dropped < 0:
        raise ConfigError(f"dropped must be 0 or more, got {dropped}")
    _check_share("threshold", threshold)
    return m_max * min(1.0, threshold * dropped)


def binary_kl(p: float, q: float) -> float:
    """`d(p || q)`: the divergence of two coins in nats; infinite where q rules out what p allows."""
    _check_share("p", p)
    _check_share("q", q)
    # Rounding can leave a tiny negative sum if p is close to q; a divergence is never negative.
    return max(0.0, _kl_term(p, q) + _kl_term(1 - p, 1 - q))


def utility_bounds(score: float, score_without: float, impact: float) -> tuple[float, float]:
    """Range of possible U for a span: `d(u || u') <= U <= u·m`.

    `score` is u, `score_without` is u' (the score once the span is gone, never more than u), `impact` is m, in nats. m
    is at least ln(u/u'), so a smaller one contradicts the two scores and is an error.
    """
    _check_share("score", score)
    _check_share("score_without", score_without)
    if score_without > score:
        raise ConfigError(f"score_without must be at most score, got {score_without} > {score}")
    if score == 0:
        return 0.0, 0.0
    least = math.log(score / score_without) if score_without > 0 else math.inf
    # Computing ln(u/u') in another order may give a value a rounding error below it.
    if not impact >= least * (1 - 1e-12):
        raise ConfigError(f"impact must be at least ln(score / score_without) = {least:.6g}, got {impact}")
    lower = binary_kl(score, score_without)
    return lower, max(lower, score * impact)


def proportional_utility(score: float, leak: float) -> float:
    """Exact U if removal makes every future that uses the span less likely by one share: `d(u || (1-ρ)u)`.

    `leak` is ρ. With one ρ for all spans U grows with u, so ranking by citations is ranking by utility.
    """
    _check_share("score", score)
    if not 0 < leak < 1:
        raise ConfigError(f"leak must be between 0 and 1, got {leak}")
    return binary_kl(score, (1 - leak) * score)


def surely_ranks_above(score: float, other: float, *, impact: tuple[float, float], remainder: float = 0.0) -> bool:
    """True if a span of `score` certainly has more utility than one of score `other`: `u_i·m_min - ρ_max > u_j·m_max`.

    `impact` holds m_min and m_max, `remainder` is ρ_max, the most that unaffected futures gain. False says nothing:
    citation scores alone do not rank spans.
    """
    _check_share("score", score)
    _check_share("other", other)
    least, most = impact
    _check_amount("remainder", remainder)
    if not 0 <= least <= most < math.inf:
        raise ConfigError(f"impact must be two finite numbers, 0 or more, the smaller one first, got {impact}")
    return score * least - remainder > other * most


def missed_span_bound(missed: Iterable[float], residual: float = 0.0) -> float:
    """Most that missing needed spans can change: `δ_res + Σ U(s_i)` over their utilities.

    `residual` is δ_res, the loss that remains if nothing is missed, because draft and agent differ.
    """
    utilities = list(missed)
    for utility in (*utilities, residual):
        _check_amount("utilities and residual", utility)
    return residual + sum(utilities)


def pinsker(divergence: float) -> float:
    """Total variation that a KL divergence in nats allows: `min(1, sqrt(D / 2))`."""
    if not divergence >= 0:
        raise ConfigError(f"divergence must be 0 or more, got {divergence}")
    return min(1.0, math.sqrt(divergence / 2))


def interaction_bound(kept: int, fan_in: float, event_entropy: float, redundancy: float) -> float:
    """Bound on ε̄, the difference between the sum of utilities and the information kept: `m·(f·h + ρ)` nats.

    Each of the m kept spans is needed by at most f future events of entropy h, and shares at most ρ with the rest of
    the history. The bound does not grow with the number of events to come, while the information kept does: over long
    horizons it is a vanishing share.
    """
    if kept < 0:
        raise ConfigError(f"kept must be 0 or more, got {kept}")
    for name, value in (("fan_in", fan_in), ("event_entropy", event_entropy), ("redundancy", redundancy)):
        _check_amount(name, value)
    return kept * (fan_in * event_entropy + redundancy)


def selection_gap(interaction: float) -> float:
    """Most information, in nats, that the choice by total utility loses against the best one: `2·ε̄`.

    If the best trace leads every other by more than this, both choices are the same.
    """
    _check_amount("interaction", interaction)
    return 2 * interaction


def selection_loss(best_loss: float, interaction: float) -> tuple[float, float]:
    """Loss of the choice by total utility, given the loss of the best trace: in nats, and as total variation."""
    _check_amount("best_loss", best_loss)
    loss = best_loss + selection_gap(interaction)
    return loss, pinsker(loss)


def bottleneck(kept_nats: float, information: float, beta: float) -> float:
    """The Information Bottleneck objective of a trace, to be minimised: `I(H; Z) - β·I(Z; Y)`."""
    _check_amount("kept_nats", kept_nats)
    _check_amount("information", information)
    _check_positive("beta", beta)
    return kept_nats - beta * information


def bottleneck_selection(utilities: Mapping[int, float], lengths: Mapping[int, float], beta: float) -> frozenset[int]:
    """Return the spans that minimise the Information Bottleneck objective: each whose `β·U` exceeds its code length.

    β is the inverse of the multiplier λ of a budget on the lengths, so a span stays if `U / length > λ`.
    """
    _check_positive("beta", beta)
    for index, utility in utilities.items():
        _check_amount(f"utility of span {index}", utility)
        _check_amount(f"length of span {index}", lengths[index])
    return frozenset(index for index, utility in utilities.items() if beta * utility > lengths[index])


def budget_multiplier(utilities: Mapping[int, float], lengths: Mapping[int, float], budget: float) -> float:
    """Smallest Lagrange multiplier λ = 1/β at which the Information Bottleneck's choice fits the budget.

    0 if everything useful fits. Spans cannot be split: between two multipliers the choice can jump over the budget, and
    an exact knapsack then keeps more (the duality gap).
    """
    _check_amount("budget", budget)
    ratios = {i: u / lengths[i] if lengths[i] else math.inf for i, u in utilities.items() if u > 0}
    kept = sum(lengths[index] for index in ratios)
    multiplier = 0.0
    for ratio in sorted(set(ratios.values())):
        if kept <= budget:
            break
        multiplier = ratio  # at λ equal to its ratio a span is dropped
        kept -= sum(lengths[index] for index, own in ratios.items() if own == ratio)
    return multiplier


def select_under_budget(
    utilities: Mapping[int, float],
    tokens: Mapping[int, int],
    budget: int,
    required: Collection[int] = (),
) -> frozenset[int]:
    """Return the spans with the highest total utility that fit: an exact 0/1 knapsack, not a greedy one.

    Keys are span indices. `required` spans are included even if they alone exceed the budget; the rest share what they
    leave. Ties are broken by fewer tokens, then by newer spans (the set that holds the newest span in which two sets
    differ), so the answer is unique. A span of no utility is kept only if it costs nothing.
    """
    for index in {*utilities, *required}:
        if index not in tokens:
            raise ConfigError(f"span {index} has no token count")
        _check_amount(f"tokens of span {index}", tokens[index])
    for index, utility in utilities.items():
        _check_amount(f"utility of span {index}", utility)
    chosen = frozenset(required)
    room = budget - sum(tokens[index] for index in chosen)
    shares = {index: _exact_share(utilities[index]) for index in sorted(utilities.keys() - chosen)}
    scale = math.lcm(*(share.denominator for share in shares.values()))
    # Partial choices as (tokens, -utility, -bits), the better one first; newer spans have higher bits. A choice with no
    # more utility than one with fewer tokens cannot win any more.
    best = [(0, 0, 0)]
    for place, (index, share) in enumerate(shares.items()):
        size, gain, bit = tokens[index], int(share * scale), 1 << place
        larger = [(used + size, worth - gain, bits - bit) for used, worth, bits in best if used + size <= room]
        choices, best = sorted(best + larger), []
        for choice in choices:
            if not best or choice[1] < best[-1][1]:
                best.append(choice)
    bits = -best[-1][2]
    return chosen | {index for place, index in enumerate(shares) if bits >> place & 1}


def _exact_share(utility: float) -> Fraction:
    """Return the fraction k/N behind a float: three times 1/3 must tie with 1. Other floats keep their value."""
    from fractions import Fraction  # slow to import, and rarely needed

    simple = Fraction(utility).limit_denominator(1000)
    return simple if float(simple) == utility else Fraction(utility)


def _failure(spans: int, rollouts: int, margin: float) -> float:
    return 2 * spans * math.exp(-2 * rollouts * margin**2)


def _kl_term(p: float, q: float) -> float:
    if p == 0:
        return 0.0
    return p * math.log(p / q) if q > 0 else math.inf


def _assumptions(rollouts: int, radius: float, m_max: float, kappa: float, epsilon: float) -> tuple[str, ...]:
    return (
        "Dropping spans only makes futures that use them less likely and the others more likely.",
        f"Where a future needs a dropped span, the loss is at most m_max = {m_max:g}"
        " (1 is always enough when loss is measured as total variation).",
        f"The {rollouts} sketches are independent samples of the draft, and each cites all the spans its plan needs.",
        f"The agent needs the dropped set at most κ = {kappa:g} times as often as the draft says, plus ε = {epsilon:g}:"
        " u^π <= κ·u^q + ε. Neither is measured here; compare replays of your own runs.",
        "If the dropped set was chosen with these same sketches, its utility is an optimistic estimate;"
        " the confidence level is exact only for a set fixed beforehand or checked with fresh sketches.",
        "A low score bounds the loss; it does not rank spans: a span cited more often may still matter less.",
        f"With {rollouts} sketches the radius alone is {radius:.2f}, whatever they cite.",
    )


def _check_count(name: str, count: int) -> None:
    if count < 1:
        raise ConfigError(f"{name} must be 1 or more, got {count}")


def _check_margin(margin: float) -> None:
    # Below a millionth the answer exceeds 10¹² rollouts, and floats lose precision.
    if not 1e-6 <= margin <= 1:
        raise ConfigError(f"margin must be at least 1e-6 and at most 1, got {margin}")


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence must be between 0 and 1, got {confidence}")


def _check_share(name: str, share: float) -> None:
    if not 0 <= share <= 1:
        raise ConfigError(f"{name} must be between 0 and 1, got {share}")


def _check_amount(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise ConfigError(f"{name} must be 0 or more and finite, got {value}")


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ConfigError(f"{name} must be above 0 and finite, got {value}")
