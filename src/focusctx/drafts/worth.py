"""The value of a set of passages and records: the number of facts in it that the future is expected to need.

A step is offered as a record, which tells what was done and how it ended, and each of its passages beside the record.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from ..types import Unit
from .dataflow import DataFlow

FAILURE_CHANCE = 0.3
"""Chance that an unresolved failure would be repeated if forgotten. It is between the chance of a name that the agent
used once and one it used twice: cheap failures fit in, a screenful of traceback does not crowd out what the plan
needs."""


class Worth:
    """The expected number of needed facts; one that two passages hold counts once."""

    def __init__(self, flow: DataFlow, bonus: Mapping[Unit, float] | None = None) -> None:
        together: defaultdict[tuple[Unit, ...], float] = defaultdict(float)
        for fact in flow.facts:
            together[fact.holders] += fact.chance
        for index in flow.failures:
            together[((index, 0),)] += FAILURE_CHANCE
        for unit, extra in (bonus or {}).items():
            together[(unit,)] += extra
        self._weights = list(together.values())
        self.groups: defaultdict[Unit, list[int]] = defaultdict(list)
        """Groups of facts that each unit holds; facts with the same holders are one group."""
        for group, holders in enumerate(together):
            for unit in holders:
                self.groups[unit].append(group)

    def of(self, units: Iterable[Unit]) -> float:
        return self._total(sorted({group for unit in units for group in self.groups[unit]}))

    def added_by(self, units: Iterable[Unit], held: Counter[int]) -> float:
        """Return the value that these units add; `held` counts, for each group, the units that hold it already."""
        return self._total({group for unit in units for group in self.groups[unit] if not held[group]})

    def held_by(self, units: Iterable[Unit]) -> Counter[int]:
        return Counter(group for unit in units for group in self.groups[unit])

    def _total(self, groups: Iterable[int]) -> float:
        return sum(self._weights[group] for group in groups)


def take_best(
    worth: Worth,
    costs: Mapping[Unit, int],
    room: float,
    *,
    thrift: float = 1.0,
    have: Iterable[Unit] = (),
    least: float = 0.0,
) -> frozenset[Unit]:
    """Repeatedly take the unit with the highest gain / cost^thrift while there is room, beside those we `have`.

    A passage brings its record along. Units that add less than `least` per token are left. Gains only shrink as units
    are taken, so an earlier gain is an upper bound and only the top one is computed again; where a record is taken, its
    passages get cheaper and are offered again.
    """
    held = worth.held_by(have)
    taken = {*have}
    passages: defaultdict[int, list[Unit]] = defaultdict(list)
    offered = [unit for unit in costs if unit not in taken and worth.groups.get(unit)]  # the others add nothing
    for unit in offered:
        if unit[1]:
            passages[unit[0]].append(unit)
    before = frozenset(taken)

    def bundle(unit: Unit) -> list[Unit]:
        record = (unit[0], 0)
        return [unit] if record in taken or unit == record or record not in costs else [record, unit]

    def ranked(unit: Unit) -> tuple[float, Unit]:
        cost = max(sum(costs[one] for one in bundle(unit)), 1)
        gain = worth.added_by(bundle(unit), held)
        return (-gain / cost**thrift if gain >= least * cost else 0.0), (-unit[0], unit[1])

    queue = [ranked(unit) for unit in offered]
    heapq.heapify(queue)
    while queue:
        score, (index, number) = heapq.heappop(queue)
        unit = (-index, number)
        if score == 0 or unit in taken:
            continue
        fresh = ranked(unit)
        if queue and fresh > queue[0]:
            heapq.heappush(queue, fresh)
            continue
        more = bundle(unit)
        cost = sum(costs[one] for one in more)
        if fresh[0] == 0 or cost > room:
            continue
        room -= cost
        for one in more:
            taken.add(one)
            held.update(worth.groups[one])
        if more[0][1] == 0:
            for passage in passages[unit[0]]:
                if passage not in taken:
                    heapq.heappush(queue, ranked(passage))
    return frozenset(taken - before)
