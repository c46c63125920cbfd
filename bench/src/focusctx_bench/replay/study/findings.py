"""Everything the study finds out about one draft, computed from recorded files alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from focusctx.drafts.dataflow import read_flow

from .convergence import Curve, converge
from .coverage import Coverage, coverage, is_needed, sets_of_spans, single_spans
from .divergence import action_divergence, hindsight, plan_divergence, sampled_curve
from .estimators import Agreement, Scores, Use, agreements, uses
from .events import Event
from .votes import Spread, spread_in_groups, spread_of

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
    spreads: Sequence[Spread]
    agreements: Sequence[Agreement]
    uses: Sequence[Use]
    coverages: Sequence[Coverage]
    drops: Drops


@dataclass(frozen=True, slots=True)
class Drops:
    """The sets that FOCUS-D drops: what the draft says of them, and what the agent did."""

    cited: float
    """Mean `û_S`, over the sketches that did not choose the set where there are such."""
    needed: float
    """The share of events at which a later action used something that only the set gave."""
    fresh: bool
    """True if other sketches than those that chose the set were counted."""


def study(events: Sequence[Event], draft: str, threshold: float) -> Findings:
    votes = [event.votes for event in events]
    holders = [event.holders() for event in events]
    scored = [event.scored for event in events if event.scored is not None]
    kept = [len(event.votes.keep(threshold, defensive=True)) for event in events]
    scores = [_scores(event, count, given) for event, count, given in zip(events, kept, holders, strict=True)]
    curves = [converge(votes, threshold, defensive=False), converge(votes, threshold, defensive=True)]
    if scored:
        curves.append(sampled_curve(scored, [count for event, count in zip(events, kept, strict=True) if event.scored]))
    files: dict[str, int] = {}
    for event in events:
        files[event.point.file] = files.get(event.point.file, 0) + 1
    return Findings(
        draft=draft,
        model=scored[0].model if scored else None,
        threshold=threshold,
        events=len(events),
        files=files,
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


def _scores(event: Event, kept: int, holders: Mapping[str, frozenset[int]]) -> Scores:
    votes, history = event.votes, event.point.history
    found: dict[str, Mapping[int, float]] = {
        "citations": votes.utility,
        "citations and rescues": votes.score(defensive=True),
    }
    if event.scored is not None:
        found |= {
            "action divergence": _at_stake(action_divergence(event.scored), votes.spans),
            "plan divergence": _at_stake(plan_divergence(event.scored), votes.spans),
            "hindsight": _at_stake(hindsight(event.scored), votes.spans),
        }
    chances = dict.fromkeys(votes.spans, 0.0)
    for fact in read_flow(history).facts:
        for index in {span for span, _ in fact.holders} & chances.keys():
            chances[index] += fact.chance
    found |= {"data flow": chances, "recency": {index: float(index) for index in votes.spans}}
    used = frozenset[int]().union(*holders.values())
    return Scores({name: scores for name, scores in found.items() if scores}, kept, used & set(votes.spans))


def _at_stake(scores: Mapping[int, float], spans: Sequence[int]) -> dict[int, float]:
    return {index: scores[index] for index in spans if index in scores} if scores else {}


def _drops(events: Sequence[Event], holders: Sequence[Mapping[str, frozenset[int]]], threshold: float) -> Drops:
    """Three sketches choose, the others are asked what they think of it; where there are but three, they judge too."""
    fresh = min(len(event.votes.cited) for event in events) > 2 * _PAPER_ROLLOUTS
    cited = []
    needed = []
    for event, given in zip(events, holders, strict=True):
        choosing, judging = event.votes.split(_PAPER_ROLLOUTS) if fresh else (event.votes, event.votes)
        dropped = set(event.votes.spans) - choosing.keep(threshold, defensive=True)
        cited.append(judging.set_utility(dropped))
        needed.append(is_needed(dropped, given))
    return Drops(sum(cited) / len(cited), sum(needed) / len(needed), fresh)
