"""Leave-one-span-out divergences: how far what the agent may do next moves when one span is not there.

Three readings of the same recorded log-likelihoods. `action_divergence` is the paper's counterfactual utility: the
KL divergence between the distributions over an elicited vocabulary of next actions, with and without the span; with
a model's own probabilities it is exact (`scoring`), from its sampled choices an estimate (`sampling`);
`sampled_curve` says what N draws from each distribution would have made of it. An action's weight is the geometric mean
of its tokens' probabilities: by their product the shortest one would have all the weight.
`plan_divergence` is its per-token version over plans the model wrote freely: the mean fall in log-likelihood per
token, an estimate of the divergence of all futures at once. `hindsight` is the same for the action the agent really
took: no method can know it, others can be held against it.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from focusctx.replay.lines import SEED

from .convergence import Curve
from .likelihoods import Kind, Likelihoods
from .ranks import jaccard, top

SIZES = (1, 3, 10, 30, 100, 300, 1000, 3000)
DRAWS = 20
SMOOTHING = 0.5
"""Added to every count, or one action never drawn makes a divergence infinite."""


def action_divergence(scored: Likelihoods) -> dict[int, float]:
    """`KL(p ‖ p without s_i)` over the vocabulary, in nats, for every span that was left out."""
    full = _distribution(scored)
    return {index: kl(full, _distribution(scored, without=index)) for index in scored.without}


def plan_divergence(scored: Likelihoods) -> dict[int, float]:
    """The mean fall per token of the freely written plans' log-likelihood, in nats."""
    return _falls(scored, Kind.PLAN)


def hindsight(scored: Likelihoods) -> dict[int, float]:
    """The fall per token of the action that the agent took next."""
    return _falls(scored, Kind.TAKEN)


def kl(p: Sequence[float], q: Sequence[float]) -> float:
    """In nats. Rounding can leave a tiny negative sum; a divergence has none."""
    return max(0.0, sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0))


def sampled_curve(events: Sequence[Likelihoods], kept: Sequence[int], *, draws: int = DRAWS, seed: int = SEED) -> Curve:
    """Return how fast the sampled divergence settles: N actions drawn with all spans, and N for each span left out.

    A divergence has no natural threshold, so its decision is the `kept[e]` spans of highest utility, as many as the
    sketches keep. Errors are relative to the events' mean largest utility: of citation shares that is about 1.
    """
    truths = [action_divergence(scored) for scored in events]
    scale = fmean(max(truth.values(), default=0.0) for truth in truths) or 1.0
    rows = [
        _event(scored, truth, count, draws, random.Random(seed))
        for scored, truth, count in zip(events, truths, kept, strict=True)
    ]
    errors = tuple(tuple(error / scale for error in wrong) for _, wrong in rows)
    return Curve("sampled divergence", SIZES, tuple(agreed for agreed, _ in rows), errors)


def _event(
    scored: Likelihoods, truth: dict[int, float], kept: int, draws: int, chance: random.Random
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    decision = top(truth, kept)
    full = _Drawn(_distribution(scored), chance)
    parts = {index: _Drawn(_distribution(scored, without=index), chance) for index in scored.without}
    agreed = [0.0] * len(SIZES)
    wrong = [0.0] * len(SIZES)
    for _ in range(draws):
        full.begin()
        for part in parts.values():
            part.begin()
        for place, size in enumerate(SIZES):
            p = full.up_to(size)
            found = {index: kl(p, part.up_to(size)) for index, part in parts.items()}
            agreed[place] += jaccard(top(found, kept), decision)
            wrong[place] += max((abs(found[index] - truth[index]) for index in truth), default=0.0)
    return tuple(total / draws for total in agreed), tuple(total / draws for total in wrong)


class _Drawn:
    """A growing sample from one distribution."""

    def __init__(self, chances: Sequence[float], chance: random.Random) -> None:
        self._places = range(len(chances))
        self._chances = chances
        self._chance = chance
        self._counts: Counter[int] = Counter()

    def begin(self) -> None:
        self._counts.clear()

    def up_to(self, size: int) -> list[float]:
        """The smoothed shares once the sample has that size."""
        more = size - self._counts.total()
        self._counts.update(self._chance.choices(self._places, weights=self._chances, k=more))
        total = size + SMOOTHING * len(self._chances)
        return [(self._counts[place] + SMOOTHING) / total for place in self._places]


def _distribution(scored: Likelihoods, *, without: int | None = None) -> list[float]:
    """The chances of the actions, given that it is one of them."""
    logs = scored.logs(Kind.ACTION, without=without)
    means = [log / count for log, count in zip(logs, scored.tokens(Kind.ACTION), strict=True)]
    weights = [math.exp(mean - max(means)) for mean in means]
    # Never quite 0: a divergence must stay finite where floats end.
    total = sum(weights)
    return [max(weight / total, 1e-300) for weight in weights]


def _falls(scored: Likelihoods, kind: Kind) -> dict[int, float]:
    tokens = scored.tokens(kind)
    if not tokens:
        return {}
    full = scored.logs(kind)
    return {
        index: fmean(
            (before - after) / count
            for before, after, count in zip(full, scored.logs(kind, without=index), tokens, strict=True)
        )
        for index in scored.without
    }
