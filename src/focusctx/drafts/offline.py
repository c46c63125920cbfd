"""The draft that needs no model: plan sketches sampled from the history's own data flow.

Each sketch samples a future: every fact is needed with the chance its data flow gives it, and the sketch cites
the spans that hold the sampled ones. It writes what a language model would write and is read by the same parser.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..types import History, Prompt, Reply, Span
from .dataflow import DataFlow, Fact, Kind, read_flow

_TARGET = 0.55
"""Share of the history's tokens, pinned ones included, that its sketches together leave."""

_FLOOR = 0.15
"""Share of the droppable tokens they leave at least, where the pinned ones fill the target alone."""

_FAILURE_CHANCE = 0.3
"""That a failure still standing would be repeated if forgotten: about that of a name the agent used once, so that
cheap ones fit in and a screenful of traceback does not crowd out what the plan needs."""

_NAMED = 3
"""Facts a step names; more would not help a reader."""

_VERB = {Kind.FILE: "go back to", Kind.NUMBER: "act on", Kind.ID: "act on", Kind.NAME: "build on"}


class OfflineDraft:
    """Sketches plans from which names, paths and ids the spans hold and how they were used so far.

    Reproducible: `seed`, or the prompt's where none is given, fixes every reply.
    """

    name = "offline"

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        seed = prompt.seed if self._seed is None else self._seed
        # A megatoken takes seconds: not on the event loop.
        outlook = await asyncio.to_thread(_look_ahead, prompt.history)
        for k in range(n):
            yield Reply(_sketch(outlook, random.Random(seed + k)))


@dataclass(frozen=True, slots=True)
class _Outlook:
    """What all sketches of an event share: what may be cited, and why it would be."""

    newest: int
    facts: Mapping[int, Sequence[Fact]]
    """For each span within the allowance, the facts it is cited for."""
    failures: Mapping[int, str]


def _look_ahead(history: History) -> _Outlook:
    flow = read_flow(history)
    within = _choose(history, flow)
    facts: defaultdict[int, list[Fact]] = defaultdict(list)
    for fact in sorted(flow.facts, key=lambda fact: (-fact.chance, fact.text)):
        # The newest of the holders is cited: it has the state that holds now.
        holder = next((index for index in reversed(fact.holders) if index in within), None)
        if holder is not None:
            facts[holder].append(fact)
    failures = {index: tried for index, tried in flow.failures.items() if index in within}
    return _Outlook(history.newest, dict(sorted(facts.items())), failures)


def _sketch(outlook: _Outlook, rng: random.Random) -> str:
    """One sampled future, in the two line forms."""
    newest = f"s_{outlook.newest}" if outlook.newest else ""
    lines = [f"Step: go on from the newest step | Depends on: [{newest}]"]
    for index, facts in outlook.facts.items():
        needed = [fact for fact in facts if rng.random() < fact.chance]
        if needed:
            names = ", ".join(fact.text for fact in needed[:_NAMED])
            lines.append(f"Step: {_VERB[needed[0].kind]} {names} | Depends on: [s_{index}]")
    lines += [
        f"Rescued Spans: [s_{index}] | Reason: {tried} failed here and would be tried again"
        for index, tried in outlook.failures.items()
    ]
    if not outlook.failures:
        lines.append("Rescued Spans: [] | Reason: no failure still stands")
    return "\n".join(lines)


def _choose(history: History, flow: DataFlow) -> frozenset[int]:
    """The spans worth most within the allowance: the best of a few greedy ways to fill it.

    Filling by value per token is good for many small spans, by value for few large ones; the newest spans are
    among the ways, so that by its own measure the choice is never worse than they are.
    """
    droppable = history.spans[:-1]
    worth = _Worth(flow)
    costs = {span.index: _cost(span) for span in droppable}
    room = _allowance(history, costs)
    ways = [_fill(worth, costs, room, thrift) for thrift in (1.0, 0.5, 0.0)]
    ways.append(_newest_that_fit(costs, room))
    return max(ways, key=worth.of)


def _cost(span: Span) -> int:
    # Spans that nobody counted still differ in length: about four characters a token.
    return span.tokens or 1 + sum(map(len, (span.thought, span.action, span.observation))) // 4


def _allowance(history: History, costs: dict[int, int]) -> int:
    """Tokens of droppable spans the sketches may cite together.

    Spans are lumps, so no choice hits the target; it is rounded up the way keeping the newest spans would be.
    """
    droppable = sum(costs.values())
    whole = max(history.tokens, droppable)
    target = max(_TARGET * whole - (whole - droppable), _FLOOR * droppable)
    room = 0
    for cost in reversed(costs.values()):
        if room >= target:
            break
        room += cost
    return room


class _Worth:
    """The expected number of needed facts in a set of spans: a fact that two of them hold counts once."""

    def __init__(self, flow: DataFlow) -> None:
        together: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for fact in flow.facts:
            together[fact.holders] += fact.chance
        for index in flow.failures:
            together[(index,)] += _FAILURE_CHANCE
        self._weights = list(together.values())
        self._held: defaultdict[int, list[int]] = defaultdict(list)
        for group, holders in enumerate(together):
            for index in holders:
                self._held[index].append(group)

    def of(self, spans: Iterable[int]) -> float:
        groups = {group for index in spans for group in self._held[index]}
        return sum(self._weights[group] for group in sorted(groups))

    def gain(self, index: int, covered: set[int]) -> float:
        return sum(self._weights[group] for group in self._held[index] if group not in covered)

    def cover(self, index: int, covered: set[int]) -> None:
        covered.update(self._held[index])


def _fill(worth: _Worth, costs: dict[int, int], room: int, thrift: float) -> frozenset[int]:
    """Take the span of highest gain / cost^thrift again and again, while there is room.

    Gains only shrink as spans are taken, so a gain computed earlier is a bound: only the top one is looked at anew.
    """
    covered: set[int] = set()
    chosen: set[int] = set()

    def ranked(index: int) -> tuple[float, int]:
        return -worth.gain(index, covered) / costs[index] ** thrift, -index

    queue = [ranked(index) for index in costs]
    heapq.heapify(queue)
    while queue:
        score, index = heapq.heappop(queue)
        index = -index
        if score == 0 or costs[index] > room:
            continue
        fresh = ranked(index)
        if queue and fresh > queue[0]:
            heapq.heappush(queue, fresh)
            continue
        chosen.add(index)
        worth.cover(index, covered)
        room -= costs[index]
    return frozenset(chosen)


def _newest_that_fit(costs: dict[int, int], room: int) -> frozenset[int]:
    chosen = set()
    for index, cost in reversed(costs.items()):
        if cost <= room:
            chosen.add(index)
            room -= cost
    return frozenset(chosen)
