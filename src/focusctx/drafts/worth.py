"""The value of a set of spans: the number of facts in it that the future is expected to need.

A span's skeleton, its thought and action alone, is offered beside the span, under the negative of the span's number:
it holds less and costs less, and the whole span can still be taken afterwards, for the difference.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from .dataflow import DataFlow

FAILURE_CHANCE = 0.3
"""Chance that an unresolved failure would be repeated if forgotten. It is between the chance of a name that the agent
used once and one it used twice: cheap failures fit in, a screenful of traceback does not crowd out what the plan
needs."""


class Worth:
    """The expected number of needed facts; one that two spans hold counts once."""

    def __init__(self, flow: DataFlow, *, skeletons: Collection[int] = ()) -> None:
        together: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for fact in flow.facts:
            outlines = tuple(-index for index in fact.written if index in skeletons)
            together[fact.holders + outlines] += fact.chance
        for index in flow.failures:
            together[(index,)] += FAILURE_CHANCE
        self._weights = list(together.values())
        self.groups: defaultdict[int, list[int]] = defaultdict(list)
        """Groups of facts that each offer holds; facts with the same holders are one group."""
        for group, holders in enumerate(together):
            for offer in holders:
                self.groups[offer].append(group)

    def of(self, offers: Iterable[int]) -> float:
        return self._total(sorted({group for offer in offers for group in self.groups[offer]}))

    def alone(self, offer: int, held: Counter[int]) -> float:
        """Return the value that only this offer adds; `held` counts, for each group, the other offers that hold it."""
        return self._total(group for group in self.groups[offer] if not held[group])

    def held_by(self, offers: Iterable[int]) -> Counter[int]:
        return Counter(group for offer in offers for group in self.groups[offer])

    def _total(self, groups: Iterable[int]) -> float:
        return sum(self._weights[group] for group in groups)


def take_best(
    worth: Worth, costs: Mapping[int, int], room: float, *, thrift: float = 1.0, have: Iterable[int] = ()
) -> frozenset[int]:
    """Repeatedly take the offer with the highest gain / cost^thrift while there is room, beside those we `have`.

    Gains only shrink as offers are taken, so an earlier gain is an upper bound: only the top one is computed again.
    """
    left = dict(costs)
    held = worth.held_by(have)
    taken: set[int] = set()

    def ranked(offer: int) -> tuple[float, int]:
        return -worth.alone(offer, held) / max(left[offer], 1) ** thrift, -offer

    queue = [ranked(offer) for offer in left]
    heapq.heapify(queue)
    while queue:
        score, offer = heapq.heappop(queue)
        offer = -offer
        if score == 0 or offer not in left or left[offer] > room:
            continue
        fresh = ranked(offer)
        if queue and fresh > queue[0]:
            heapq.heappush(queue, fresh)
            continue
        taken.add(offer)
        held.update(worth.groups[offer])
        cost = left.pop(offer)
        room -= cost
        if offer > 0:  # whole: its skeleton is no longer offered
            left.pop(-offer, None)
            taken.discard(-offer)
        elif -offer in left:
            left[-offer] -= cost
            heapq.heappush(queue, ranked(-offer))
    return frozenset(taken)
