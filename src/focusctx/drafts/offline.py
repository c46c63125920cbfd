"""The draft that needs no model: plan sketches sampled from the history's own data flow.

Each sketch samples a future: every fact is needed with the chance its data flow gives it, and the sketch cites
the spans that hold the sampled ones. It writes what a language model would write and is read by the same parser.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from ..types import History, Prompt, Reply, Span
from .dataflow import DataFlow, Fact, Kind, read_flow
from .worth import Worth, take_best

_TARGET = 0.55
"""Share of the history's tokens, pinned ones included, that its sketches together leave."""

_FLOOR = 0.15
"""Share of the droppable tokens they leave at least, where the pinned ones fill the target alone."""

_WORTHWHILE = 0.2
"""A span that brings less than this part of what the chosen ones bring per token is left out though it fits:
room is no reason to keep a screenful for one faint chance."""

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

    start: tuple[int, ...]
    """Where any plan goes on from: the newest span; where no fact tells spans apart, the newest that fit."""
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
    start = [span.index for span in history.spans[-1:]]
    if not facts and not failures:
        start = sorted(within.union(start))
    return _Outlook(tuple(start), dict(sorted(facts.items())), failures)


def _sketch(outlook: _Outlook, rng: random.Random) -> str:
    """One sampled future, in the two line forms."""
    start = ", ".join(f"s_{index}" for index in outlook.start)
    lines = [f"Step: go on from where the agent is | Depends on: [{start}]"]
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
    worth = Worth(flow)
    costs = {span.index: _cost(span) for span in droppable}
    room = _allowance(history, costs)
    ways = [
        _newest_that_fit(costs, room),
        *(take_best(worth, costs, room, thrift=thrift) for thrift in (1.0, 0.5, 0.0)),
    ]
    return _thin(worth, costs, max(ways, key=worth.of))


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


def _thin(worth: Worth, costs: dict[int, int], chosen: frozenset[int]) -> frozenset[int]:
    """Without the spans that are not worth their tokens beside the others, the least worthwhile first."""
    held = worth.held_by(chosen)
    average = worth.of(chosen) / max(sum(costs[index] for index in chosen), 1)
    left = set(chosen)

    def ranked(index: int) -> tuple[float, int]:
        held.subtract(worth.groups[index])
        loss = worth.alone(index, held)
        held.update(worth.groups[index])
        return loss / costs[index], index

    queue = [ranked(index) for index in chosen]
    heapq.heapify(queue)
    while queue:
        _, index = heapq.heappop(queue)
        fresh = ranked(index)
        if queue and fresh > queue[0]:  # it became the only holder of something: losses only grow
            heapq.heappush(queue, fresh)
            continue
        if fresh[0] >= _WORTHWHILE * average:
            break
        left.discard(index)
        held.subtract(worth.groups[index])
    return frozenset(left)


def _newest_that_fit(costs: dict[int, int], room: int) -> frozenset[int]:
    chosen = set()
    for index, cost in reversed(costs.items()):
        if cost <= room:
            chosen.add(index)
            room -= cost
    return frozenset(chosen)
