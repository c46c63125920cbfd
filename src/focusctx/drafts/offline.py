"""A draft that needs no model: it samples plan sketches from the history's own data flow.

Each sketch samples a future: every fact is needed with the chance that its data flow gives it, and the sketch cites
the spans that hold the sampled facts. It has the format that a language model writes, and the same parser reads it.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..types import History, Prompt, Reply, Span, Unit
from .dataflow import DataFlow, Fact, Worth, read_flow, take_best
from .reading import Kind

if TYPE_CHECKING:
    from ..pipeline.outline import Outlines

_TARGET = 0.55
"""Share of the history's tokens, including pinned ones, that its sketches together keep."""

_FLOOR = 0.15
"""Smallest share of the droppable tokens that they keep, even if the pinned ones alone fill the target."""

_WORTHWHILE = 0.2
"""A span worth less per token than this fraction of the chosen spans' average is left out even if it fits:
free room is no reason to keep a screenful for one faint chance."""

_NAMED = 3
"""Most facts that a step names; more would not help a reader."""

_MARKS = re.compile(r"[^\w#@./-]+")
"""Characters by which a step's text could pass for a citation."""

_VERB = {
    Kind.FILE: "go back to",
    Kind.NUMBER: "act on",
    Kind.ID: "act on",
    Kind.NAME: "build on",
    Kind.ANSWER: "use",
    Kind.DETAIL: "look at",
}


class OfflineDraft:
    """Sketches plans from the names, paths and ids in the spans and how they were used so far.

    Reproducible: `seed`, or the prompt's if none is given, determines every reply.
    """

    name = "offline"
    instant = True
    """A session need not ask it ahead of time."""

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        seed = prompt.seed if self._seed is None else self._seed
        # A million tokens take seconds, too long for the event loop.
        outlook = await asyncio.to_thread(_look_ahead, prompt)
        for k in range(n):
            yield Reply(_sketch(outlook, random.Random(seed + k)))


@dataclass(frozen=True, slots=True)
class _Outlook:
    """Data that all sketches of an event share: the spans they may cite, and the reasons to."""

    start: tuple[int, ...]
    """Spans that every plan starts from: the newest; without facts and failures to choose by, the newest that fit."""
    facts: Mapping[Unit, Sequence[Fact]]
    """The facts for which each passage or record within the allowance is cited."""
    topics: Mapping[str, Sequence[Unit]]
    """Things that the user named and that are not settled, with the passages looked up for each."""
    failures: Mapping[int, str]
    divided: frozenset[int]
    """Spans that are cut into passages."""

    def label(self, unit: Unit) -> str:
        """Return the id of a passage, of a record (`s_7.0`), or of a span that is not divided."""
        index, number = unit
        return f"s_{index}.{number}" if index in self.divided else f"s_{index}"


def _look_ahead(prompt: Prompt) -> _Outlook:
    history = prompt.history
    flow = prompt.flow.read() if prompt.flow and prompt.flow.history is history else read_flow(history)
    within = _choose(history, flow)
    facts: defaultdict[Unit, list[Fact]] = defaultdict(list)
    for fact in sorted(flow.facts, key=lambda fact: (-fact.chance, fact.text)):
        # The newest of the holders is cited: it has the current state.
        holder = next((unit for unit in reversed(fact.holders) if unit in within), None)
        if holder is not None:
            facts[holder].append(fact)
    failures = {index: tried for index, tried in flow.failures.items() if (index, 0) in within}
    start = {span.index for span in history.spans[-1:]}
    if not facts and not failures:
        start |= {index for index, _ in within}
    outlines = history.outlines
    divided = frozenset(span.index for span in history.spans if outlines and outlines.of(span).passages)
    return _Outlook(tuple(sorted(start)), dict(sorted(facts.items())), flow.topics, failures, divided)


def _sketch(outlook: _Outlook, rng: random.Random) -> str:
    """Write one sampled future, in the two line formats."""
    start = ", ".join(f"s_{index}" for index in outlook.start)
    lines = [f"Step: go on from where the agent is | Depends on: [{start}]"]
    for topic, units in outlook.topics.items():
        labels = ", ".join(map(outlook.label, units))
        lines.append(f"Step: go on with {_MARKS.sub(' ', topic)} | Depends on: [{labels}]")  # quoted: may hold anything
    for unit, facts in outlook.facts.items():
        needed = [fact for fact in facts if rng.random() < fact.chance]
        if needed:
            names = ", ".join(fact.text for fact in needed[:_NAMED])
            lines.append(f"Step: {_VERB[needed[0].kind]} {names} | Depends on: [{outlook.label(unit)}]")
    lines += [
        f"Rescued Spans: [{outlook.label((index, 0))}] | Reason: {tried} failed here and would be tried again"
        for index, tried in outlook.failures.items()
    ]
    if not outlook.failures:
        lines.append("Rescued Spans: [] | Reason: no failure still stands")
    return "\n".join(lines)


def _choose(history: History, flow: DataFlow) -> frozenset[Unit]:
    """Return the most valuable passages and records within the allowance: the best of a few greedy ways to fill it.

    Filling by value per token is good for many small ones, filling by value for few large ones. Taking the newest is
    one of the ways, so by its own measure the choice is never worse than that.
    """
    worth = Worth(flow)
    costs = {unit: cost for span in history.spans[:-1] for unit, cost in _costs(span, history.outlines)}
    room = _allowance(history, costs)
    ways = [
        _newest_that_fit(costs, room),
        *(take_best(worth, costs, room, thrift=thrift) for thrift in (1.0, 0.5, 0.0)),
    ]
    return _thin(worth, costs, max(ways, key=worth.of))


def _costs(span: Span, outlines: Outlines | None) -> Iterator[tuple[Unit, int]]:
    """Yield the tokens of a span's record and of its passages."""
    if outlines is None:
        # Spans without a token count still differ in length: about four characters a token.
        texts = (span.thought, span.action, span.observation)
        yield (span.index, 0), span.tokens or 1 + sum(map(len, texts)) // 4
        return
    outline = outlines.of(span)
    yield (span.index, 0), outline.record_tokens
    yield from (((span.index, passage.number), passage.tokens) for passage in outline.passages)


def _allowance(history: History, costs: dict[Unit, int]) -> int:
    """Return how many tokens of droppable spans the sketches may cite together.

    No choice of whole spans hits the target exactly: it is rounded up to what keeping the newest spans would take.
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


def _thin(worth: Worth, costs: dict[Unit, int], chosen: frozenset[Unit]) -> frozenset[Unit]:
    """Return the chosen units without those not worth their tokens beside the others; the least worthwhile go first."""
    held = worth.held_by(chosen)
    average = worth.of(chosen) / max(sum(costs[unit] for unit in chosen), 1)
    left = set(chosen)

    def ranked(unit: Unit) -> tuple[float, Unit]:
        held.subtract(worth.groups[unit])
        loss = worth.added_by([unit], held)
        held.update(worth.groups[unit])
        return loss / max(costs[unit], 1), unit

    queue = [ranked(unit) for unit in chosen]
    heapq.heapify(queue)
    while queue:
        _, unit = heapq.heappop(queue)
        fresh = ranked(unit)
        if queue and fresh > queue[0]:  # it became the only holder of something: losses only grow
            heapq.heappush(queue, fresh)
            continue
        if fresh[0] >= _WORTHWHILE * average:
            break
        left.discard(unit)
        held.subtract(worth.groups[unit])
    return frozenset(left)


def _newest_that_fit(costs: dict[Unit, int], room: int) -> frozenset[Unit]:
    chosen = set()
    for unit, cost in reversed(costs.items()):
        if cost <= room:
            chosen.add(unit)
            room -= cost
    return frozenset(chosen)
