"""Findings of the study about one draft, computed from recorded files alone.

- Convergence: the decision and the worst span's error at N sketches, against those of very many. The recorded
  sketches of an event stand for the draft: `u*` and the converged keep-set are those of all of them, and a sample
  of N is drawn from them *with* replacement, as from a draft that writes exactly these. Drawing without replacement
  would make the error fall to 0 at the number recorded, and its slope too steep.
- Divergences: how far the agent's next actions move when one span is left out. `action_divergence` is the paper's
  counterfactual utility: the KL divergence between the distributions over an elicited vocabulary of next actions,
  with and without the span. An action's weight is the geometric mean of its tokens' probabilities: by their product
  the shortest one would have all the weight. `plan_divergence` is the mean fall in log-likelihood per token of
  plans that the model wrote freely, `hindsight` that of the action the agent really took: no method can know it,
  others can be compared with it.
- Estimators of the same utility, compared event by event: kept sets, rankings, and the spans that were used later.
- Coverage: does the agent need what the draft does not cite? The paper's bound carries over from the draft to the
  agent where `u^π_S <= κ·u^q_S + ε`. `u^q_S` is the share of sketches that cite any span of S. The agent's side is
  what the recorded run did: 1 where a later action uses a fact that only S gave, else 0. One run is one sample of
  the agent's future, so `u^π` is a mean over many sets with about the same `u^q`. The sets are fixed without
  looking at the sketches: every span alone, every "oldest j spans", and random ones. ε is the mean where no sketch
  cites the set, κ the smallest slope that puts the line above the mean of every bin.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from statistics import fmean
from typing import NamedTuple, TypeAlias

from scipy import stats

from focusctx.drafts.dataflow import read_flow
from focusctx.replay.lines import RESAMPLES, SEED, Interval, bootstrap, interval_of

from .events import StudyEvent, UtilitySpread, Votes, spread_in_groups, spread_of
from .scoring import SMOOTHING, Kind, Likelihoods

_PAPER_ROLLOUTS = 3


@dataclass(frozen=True, slots=True)
class Findings:
    draft: str
    model: str | None
    """The model whose probabilities the divergences rest on."""
    threshold: float
    events: int
    files: Mapping[str, int]
    """Events of each."""
    sketches: int
    """The fewest plans that an event has."""
    no_plans: float
    """The share of replies that are no plan."""
    curves: Sequence[Curve]
    spreads: Sequence[UtilitySpread]
    agreements: Sequence[EstimatorPair]
    uses: Sequence[Use]
    coverages: Sequence[Coverage]
    drops: Drops


class Drops(NamedTuple):
    """The sets that FOCUS-D drops: what the draft says of them, and what the agent did."""

    cited: float
    """Mean `û_S`, over the sketches that did not choose the set where there are such."""
    needed: float
    """The share of events at which a later action used something that only the set gave."""
    fresh: bool
    """True if other sketches than those that chose the set were counted."""


def study(events: Sequence[StudyEvent], draft: str, threshold: float) -> Findings:
    votes = [event.votes for event in events]
    holders = [event.holders() for event in events]
    scored = [event.scored for event in events if event.scored is not None]
    kept = [len(event.votes.keep(threshold, defensive=True)) for event in events]
    scores = [_scores(event, count, given) for event, count, given in zip(events, kept, holders, strict=True)]
    curves = [converge(votes, threshold, defensive=False), converge(votes, threshold, defensive=True)]
    if scored:
        curves.append(sampled_curve(scored, [count for event, count in zip(events, kept, strict=True) if event.scored]))
    return Findings(
        draft=draft,
        model=scored[0].model if scored else None,
        threshold=threshold,
        events=len(events),
        files=Counter(event.point.file for event in events),
        sketches=min(len(one.cited) for one in votes),
        no_plans=1 - sum(len(one.cited) for one in votes) / sum(one.replies for one in votes),
        curves=curves,
        spreads=[one for one in (spread_in_groups(votes, _PAPER_ROLLOUTS), spread_of(votes)) if one.values],
        agreements=agreements(scores),
        uses=uses(scores),
        coverages=[
            coverage("single spans", single_spans(votes, holders)),
            coverage("sets of spans", sets_of_spans(votes, holders)),
        ],
        drops=_drops(events, holders, threshold),
    )


def _scores(event: StudyEvent, kept: int, holders: Mapping[str, frozenset[int]]) -> EventScores:
    votes, history = event.votes, event.point.history
    found: dict[str, Mapping[int, float]] = {
        "citations": votes.utility,
        "citations and rescues": votes.score(defensive=True),
    }
    measures = {"action divergence": action_divergence, "plan divergence": plan_divergence, "hindsight": hindsight}
    if event.scored is not None:
        for name, measure in measures.items():
            scores = measure(event.scored)
            found[name] = {index: scores[index] for index in votes.spans if index in scores}
    chances = dict.fromkeys(votes.spans, 0.0)
    for fact in read_flow(history).facts:
        for index in {span for span, _ in fact.holders} & chances.keys():
            chances[index] += fact.chance
    found |= {"data flow": chances, "recency": {index: float(index) for index in votes.spans}}
    used = frozenset[int]().union(*holders.values())
    return EventScores({name: scores for name, scores in found.items() if scores}, kept, used & set(votes.spans))


def _drops(events: Sequence[StudyEvent], holders: Sequence[Mapping[str, frozenset[int]]], threshold: float) -> Drops:
    """Let three sketches choose, and the others judge; with few sketches, all of them do both."""
    fresh = min(len(event.votes.cited) for event in events) > 2 * _PAPER_ROLLOUTS
    found = []
    for event, given in zip(events, holders, strict=True):
        choosing, judging = event.votes.split(_PAPER_ROLLOUTS) if fresh else (event.votes, event.votes)
        dropped = set(event.votes.spans) - choosing.keep(threshold, defensive=True)
        found.append((judging.set_utility(dropped), is_needed(dropped, given)))
    return Drops(fmean(cited for cited, _ in found), fmean(needed for _, needed in found), fresh)


SIZES = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
DRAWS = 200
SETTLED = 0.95
"""The mean overlap at which a keep-set counts as settled."""
ENOUGH = 30
"""Fewer sketches than this are no stand-in for the draft: no slope and no settling are read off them."""


@dataclass(frozen=True, slots=True)
class Curve:
    """For each N, a mean over draws for every event."""

    name: str
    sizes: tuple[int, ...]
    jaccard: tuple[tuple[float, ...], ...]
    """One row per event: the overlap of the decision at each N with the converged one."""
    error: tuple[tuple[float, ...], ...]
    """One row per event: the worst span's error at each N."""

    def jaccards(self) -> list[Interval]:
        return [bootstrap(column) for column in zip(*self.jaccard, strict=True)]

    def errors(self) -> list[Interval]:
        return [bootstrap(column) for column in zip(*self.error, strict=True)]

    @property
    def enough(self) -> bool:
        return self.sizes[-1] >= ENOUGH

    def settles(self) -> int | None:
        """Return the smallest N from which on the mean overlap is at least `SETTLED`."""
        means = [fmean(column) for column in zip(*self.jaccard, strict=True)]
        below = [place for place, mean in enumerate(means) if mean < SETTLED]
        first = below[-1] + 1 if below else 0
        return self.sizes[first] if first < len(self.sizes) else None

    def slope(self) -> Interval | None:
        """Return the log-log slope of the mean worst-span error over N, with its interval by bootstrap over events."""
        whole = self._slope(self.error)
        if whole is None or not self.enough:
            return None
        chance = random.Random(SEED)
        again = [self._slope(chance.choices(self.error, k=len(self.error))) for _ in range(RESAMPLES)]
        found = [slope for slope in again if slope is not None]
        return interval_of(whole, found)

    def _slope(self, rows: Sequence[Sequence[float]]) -> float | None:
        return log_log_slope(self.sizes, [fmean(column) for column in zip(*rows, strict=True)])


def converge(events: Sequence[Votes], threshold: float, *, defensive: bool, draws: int = DRAWS) -> Curve:
    """Return the curve of the citation share: FOCUS-O's decision, or FOCUS-D's where rescues count too.

    Where some events have enough plans, the others are left out.
    """
    counted = [votes for votes in events if len(votes.cited) >= ENOUGH] or events
    most = min(len(votes.cited) for votes in counted)
    sizes = tuple(size for size in SIZES if size <= most)
    rows = []
    for votes in counted:
        draw = partial(_draw_plans, votes, threshold, sizes, defensive, random.Random(SEED))
        rows.append(_mean_draw(draw, draws, votes.keep(threshold, defensive=defensive)))
    return _curve("plans and rescues" if defensive else "plans", sizes, rows)


Draw: TypeAlias = Iterator[tuple[Collection[int], float]]
"""For each size, the spans kept and the worst error."""


def _draw_plans(votes: Votes, threshold: float, sizes: tuple[int, ...], defensive: bool, chance: random.Random) -> Draw:
    """Draw as many plans as the largest size, and look at them whenever there are enough for the next."""
    ballots, truth = list(zip(votes.cited, votes.rescued, strict=True)), votes.score(defensive=defensive)
    cited: Counter[int] = Counter()
    rescued: Counter[int] = Counter()
    drawn = 0
    for size in sizes:
        for plan, rescue in chance.choices(ballots, k=size - drawn):
            cited.update(plan)
            rescued.update(rescue)
        drawn = size
        shares = {index: max(cited[index], rescued[index] if defensive else 0) / size for index in votes.spans}
        kept = {index for index, share in shares.items() if share >= threshold}
        yield kept, max(abs(share - truth[index]) for index, share in shares.items())


Row: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
"""For each size: the mean overlap with the converged decision, and the mean worst error."""


def _mean_draw(draw: Callable[[], Draw], draws: int, decision: Collection[int]) -> Row:
    """Return the means over draws."""
    found = [[(jaccard(kept, decision), wrong) for kept, wrong in draw()] for _ in range(draws)]
    at_sizes = list(zip(*found, strict=True))
    agreed, wrong = (tuple(fmean(one[part] for one in some) for some in at_sizes) for part in (0, 1))
    return agreed, wrong


def _curve(name: str, sizes: tuple[int, ...], rows: Sequence[Row]) -> Curve:
    return Curve(name, sizes, tuple(agreed for agreed, _ in rows), tuple(wrong for _, wrong in rows))


DIVERGENCE_SIZES = (1, 3, 10, 30, 100, 300, 1000, 3000)
DIVERGENCE_DRAWS = 20


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
    """Return the divergence in nats. Rounding can leave a tiny negative sum; a divergence has none."""
    return max(0.0, sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0))


def sampled_curve(events: Sequence[Likelihoods], kept: Sequence[int], *, draws: int = DIVERGENCE_DRAWS) -> Curve:
    """Return how fast the sampled divergence settles: N actions drawn with all spans, and N for each span left out.

    A divergence has no natural threshold, so its decision is the `kept[e]` spans of highest utility, as many as the
    sketches keep. Errors are relative to the events' mean largest utility: of citation shares that is about 1.
    """
    truths = [action_divergence(scored) for scored in events]
    scale = fmean(max(truth.values(), default=0.0) for truth in truths) or 1.0
    rows = []
    for scored, truth, count in zip(events, truths, kept, strict=True):
        draw = partial(_draw_actions, scored, truth, count, scale, random.Random(SEED))
        rows.append(_mean_draw(draw, draws, top(truth, count)))
    return _curve("sampled divergence", DIVERGENCE_SIZES, rows)


def _draw_actions(
    scored: Likelihoods, truth: Mapping[int, float], kept: int, scale: float, chance: random.Random
) -> Draw:
    every = [_distribution(scored), *(_distribution(scored, without=index) for index in scored.without)]
    for p, *others in zip(*(_growing(chances, chance) for chances in every), strict=True):
        found = {index: kl(p, part) for index, part in zip(scored.without, others, strict=True)}
        yield top(found, kept), max((abs(found[index] - truth[index]) for index in truth), default=0.0) / scale


def _growing(chances: Sequence[float], chance: random.Random) -> Iterator[list[float]]:
    """Yield the smoothed shares in a growing sample from one distribution, at each size."""
    counts: Counter[int] = Counter()
    for size in DIVERGENCE_SIZES:
        counts.update(chance.choices(range(len(chances)), weights=chances, k=size - counts.total()))
        total = size + SMOOTHING * len(chances)
        yield [(counts[place] + SMOOTHING) / total for place in range(len(chances))]


def _distribution(scored: Likelihoods, *, without: int | None = None) -> list[float]:
    """Return the chances of the actions, given that it is one of them."""
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


@dataclass(frozen=True, slots=True)
class EventScores:
    """One event: a utility for every span at stake from each estimator, and the spans that were used later."""

    by_estimator: Mapping[str, Mapping[int, float]]
    kept: int
    """Number of spans that the sketches keep: every estimator may keep as many."""
    used: frozenset[int]
    """The spans that gave a fact which later actions use."""


@dataclass(frozen=True, slots=True)
class EstimatorPair:
    """Agreement of two estimators, over events."""

    left: str
    right: str
    events: int
    overlap: Interval | None
    """Overlap of their kept sets, both of the same size."""
    chance: float
    """Overlap of two random sets of that size."""
    decisions: Interval | None
    """Spearman's rank correlation of keep and drop, as in the paper."""
    utilities: Interval | None
    """Spearman's rank correlation of the utilities themselves."""


@dataclass(frozen=True, slots=True)
class Use:
    """One estimator against what the recorded future used."""

    estimator: str
    events: int
    auc: Interval | None
    """Probability that a span that was used later ranks above one that was not."""
    recall: Interval | None
    """The share of used spans among the kept, where each estimator keeps as many as the sketches do."""


def agreements(events: Sequence[EventScores]) -> list[EstimatorPair]:
    """Compare every pair of estimators, over the events that have both."""
    return [_agreement(left, right, events) for left, right in combinations(_estimators(events), 2)]


def uses(events: Sequence[EventScores]) -> list[Use]:
    """Compare every estimator with what the recorded future used."""
    return [_use(name, [event for event in events if name in event.by_estimator]) for name in _estimators(events)]


def _estimators(events: Sequence[EventScores]) -> list[str]:
    return list(dict.fromkeys(name for event in events for name in event.by_estimator))


def _agreement(left: str, right: str, events: Sequence[EventScores]) -> EstimatorPair:
    both = [event for event in events if left in event.by_estimator and right in event.by_estimator]
    undecided = [event for event in both if 0 < event.kept < len(event.by_estimator[left])]

    def each(measure: Callable[[Mapping[int, float], Mapping[int, float], int], float | None]) -> list[float]:
        found = [measure(event.by_estimator[left], event.by_estimator[right], event.kept) for event in undecided]
        return [value for value in found if value is not None]

    return EstimatorPair(
        left,
        right,
        len(undecided),
        _mean(each(lambda a, b, kept: overlap(top(a, kept), top(b, kept)))),
        fmean([event.kept / len(event.by_estimator[left]) for event in undecided] or [0.0]),
        _mean(each(_decisions)),
        _mean(each(lambda a, b, _: spearman([a[index] for index in a], [b[index] for index in a]))),
    )


def _decisions(left: Mapping[int, float], right: Mapping[int, float], kept: int) -> float | None:
    first, second = top(left, kept), top(right, kept)
    return spearman([index in first for index in left], [index in second for index in left])


def _use(name: str, events: Sequence[EventScores]) -> Use:
    found = []
    for event in events:
        scores = event.by_estimator[name]
        area = auc(list(scores.values()), [index in event.used for index in scores])
        if area is not None:
            found.append((area, len(top(scores, event.kept) & event.used) / len(event.used & scores.keys())))
    return Use(name, len(found), _mean([area for area, _ in found]), _mean([share for _, share in found]))


def _mean(numbers: Sequence[float]) -> Interval | None:
    return bootstrap(numbers) if numbers else None


_EDGES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Upper edges of the bins over `u^q`; the first holds the sets that no sketch cites."""
_LEAST_EVENTS = 5
"""A bin with sets of fewer events says nothing and is left out."""
_RANDOM_SETS = 10
"""Random sets of each event."""


class Observed(NamedTuple):
    """One set of spans at one event."""

    event: int
    cited: float
    """`u^q_S`."""
    needed: bool
    """True if a later action would miss something if just this set were gone."""


@dataclass(frozen=True, slots=True)
class Bin:
    cited: float
    """The mean `u^q` of its sets."""
    needed: Interval
    """`u^π`: the mean over events of the share of needed sets."""
    sets: int


@dataclass(frozen=True, slots=True)
class Coverage:
    name: str
    bins: tuple[Bin, ...]

    @property
    def epsilon(self) -> float:
        """Share of sets that the agent needs and no sketch cites."""
        return next((found.needed.mean for found in self.bins if found.cited == 0), 0.0)

    @property
    def kappa(self) -> float:
        return max((max(0.0, one.needed.mean - self.epsilon) / one.cited for one in self.bins if one.cited), default=0)


def coverage(name: str, observed: Sequence[Observed]) -> Coverage:
    bins = []
    for low, high in zip((-1.0, *_EDGES[:-1]), _EDGES, strict=True):
        inside = [one for one in observed if low < one.cited <= high]
        by_event: dict[int, list[bool]] = {}
        for one in inside:
            by_event.setdefault(one.event, []).append(one.needed)
        if len(by_event) < _LEAST_EVENTS:
            continue
        # Sets of one event overlap: events, not sets, are what is drawn anew.
        needed = bootstrap([fmean(found) for found in by_event.values()])
        bins.append(Bin(fmean(one.cited for one in inside), needed, len(inside)))
    return Coverage(name, tuple(bins))


def single_spans(events: Sequence[Votes], holders: Sequence[Mapping[str, frozenset[int]]]) -> list[Observed]:
    """Observe every span alone. `holders[e]` names, for each fact that later actions use, the spans that gave it."""
    return [
        Observed(number, votes.set_utility({index}), is_needed({index}, holders[number]))
        for number, votes in enumerate(events)
        for index in votes.spans
    ]


def sets_of_spans(events: Sequence[Votes], holders: Sequence[Mapping[str, frozenset[int]]]) -> list[Observed]:
    """Observe the oldest j spans for every j, and random sets of every size."""
    chance = random.Random(SEED)
    found = []
    for number, votes in enumerate(events):
        oldest = [votes.spans[:count] for count in range(2, len(votes.spans) + 1)]
        drawn = [chance.sample(votes.spans, chance.randint(1, len(votes.spans))) for _ in range(_RANDOM_SETS)]
        for spans in (*oldest, *drawn):
            found.append(Observed(number, votes.set_utility(spans), is_needed(spans, holders[number])))
    return found


def is_needed(spans: Collection[int], holders: Mapping[str, frozenset[int]]) -> bool:
    """Return True if some fact is given by these spans and by no other."""
    return any(given.issubset(spans) for given in holders.values())


def jaccard(left: Collection[int], right: Collection[int]) -> float:
    """Return shared members over all members; two empty sets are the same set."""
    first, second = set(left), set(right)
    return len(first & second) / len(first | second) if first | second else 1.0


def overlap(left: Collection[int], right: Collection[int]) -> float | None:
    """Return the overlap coefficient: shared members over the smaller set. None where a set is empty."""
    first, second = set(left), set(right)
    return len(first & second) / min(len(first), len(second)) if first and second else None


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Return the rank correlation. None where one side ranks nothing: all its numbers are equal."""
    if len(set(left)) < 2 or len(set(right)) < 2:
        return None
    return float(stats.spearmanr(left, right).statistic)


def auc(numbers: Sequence[float], hits: Sequence[bool]) -> float | None:
    """Return how likely a hit has a larger number than a miss; ties count half. None without hits or misses."""
    ours = [number for number, hit in zip(numbers, hits, strict=True) if hit]
    others = [number for number, hit in zip(numbers, hits, strict=True) if not hit]
    if not ours or not others:
        return None
    return float(stats.mannwhitneyu(ours, others).statistic) / (len(ours) * len(others))


def log_log_slope(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return the least-squares slope of log y over log x, over the points where both are above 0."""
    points = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if a > 0 and b > 0]
    if len({a for a, _ in points}) < 2:
        return None
    return float(stats.linregress([a for a, _ in points], [b for _, b in points]).slope)


def top(scores: Mapping[int, float], count: int) -> frozenset[int]:
    """Return the `count` spans of highest score; of equals the newer ones, as an agent's newest steps matter most."""
    return frozenset(sorted(scores, key=lambda index: (-scores[index], -index))[:count])
