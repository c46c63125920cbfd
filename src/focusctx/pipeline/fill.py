"""Beyond the paper, fill: spare room goes to spans that the data flow expects the future to need.

A good draft often keeps far less than the budget allows. Spans it did not ask for can come back in two forms: whole, or
as a skeleton, which costs little and keeps the record of what was done. Each offer is valued by the facts it would add
to the kept spans, per token.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ..config import FocusConfig
from ..drafts.dataflow import read_flow
from ..drafts.worth import Worth, take_best
from ..types import History
from .keep import Selection, bring_back
from .skeleton import skeleton_of
from .split import Count

_SMALLER = 0.9
"""Largest share of its span that a skeleton may have: a larger one saves too little for a missing observation."""


@dataclass(frozen=True, slots=True)
class Offers:
    """The value of every span, whole or as a skeleton."""

    worth: Worth
    skeletons: Mapping[int, int]
    """Tokens of each skeleton on offer."""


def read_offers(history: History, count: Count) -> Offers:
    """Value all spans. As slow as reading the whole history, so it is done while sketches are sampled."""
    skeletons: dict[int, int] = {}
    if history.format != "spans":  # bare spans have no messages to put a placeholder into
        for span in history.spans:
            tokens = skeleton_of(span, history.format, count).tokens
            if tokens <= _SMALLER * span.tokens:
                skeletons[span.index] = tokens
    return Offers(Worth(read_flow(history), skeletons=skeletons), skeletons)


def spare_room(history: History, kept: Collection[int], config: FocusConfig) -> float:
    """Tokens left between the kept spans and the target: a share of the spans, within the budget and the limit.

    Sketches sampled ahead of time see a history within the budget. The steps that come until the budget is reached stay
    whole, so their share of the room is reserved.
    """
    spans = sum(span.tokens for span in history.spans)
    coming = max(config.budget - history.tokens, 0)
    most = config.budget if config.limit is None else min(config.budget, config.limit)
    target = min(config.fill * (spans + coming), most - (history.tokens - spans))
    return target - coming - sum(span.tokens for span in history.spans if span.index in kept)


def fill(history: History, selection: Selection, offers: Offers | None, config: FocusConfig) -> Selection:
    """Fill the spare room of the selection with the most valuable offers."""
    if offers is None:
        return selection
    outlined = (span for span in history.spans if span.index in selection.skeletons)
    already = {span.index: offers.skeletons.get(span.index, span.tokens) for span in outlined}
    costs: dict[int, int] = {}
    for span in history.spans:
        if span.index in selection.kept or not (span.needs is None or span.needs in selection.kept):
            continue  # kept already, or it would bring along the span whose reasoning it continues
        costs[span.index] = span.tokens - already.get(span.index, 0)
        if span.index in offers.skeletons and span.index not in already:
            costs[-span.index] = offers.skeletons[span.index]
    room = spare_room(history, selection.kept, config) - sum(already.values())
    taken = take_best(offers.worth, costs, room, have=[*selection.kept, *(-index for index in already)])
    skeletons = frozenset(-offer for offer in taken if offer < 0)
    more = replace(
        selection,
        skeletons=selection.skeletons | skeletons,
        notes={**selection.notes, **dict.fromkeys(skeletons, "the future may need what it did")},
    )
    whole = [offer for offer in taken if offer > 0]
    return bring_back(more, whole, "the future may need what it shows", history, config)
