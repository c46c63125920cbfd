"""Step 5, score: the share of sketches that cite a span or one of its passages, and the share that rescue it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..types import Sketch, Unit

_Named = TypeVar("_Named", int, Unit)


@dataclass(frozen=True, slots=True)
class Scores:
    """`û_i` and the rescue share of every span and passage that some sketch names; all others are 0."""

    utility: Mapping[int, float]
    """Share of the plans that cite a span, whole or in part."""
    rescue: Mapping[int, float]
    cited: Mapping[Unit, float]
    """Share of the plans that cite a passage; a cited span counts for all its passages and its record."""
    rescued: Mapping[Unit, float]
    narrow: Mapping[Unit, float]
    """Share of the plans that cite a passage by its own id."""


def score(sketches: Sequence[Sketch], passages: Mapping[int, Sequence[int]]) -> Scores:
    """Compute citation and rescue frequencies over the sketches that are plans; `passages` numbers those of spans."""
    plans = [sketch for sketch in sketches if sketch.problem is None]
    rescues = [[(rescue.spans, rescue.parts) for rescue in plan.rescues] for plan in plans]
    return Scores(
        utility=_shares([plan.cited for plan in plans]),
        rescue=_shares([plan.rescued for plan in plans]),
        cited=_shares([cited_units(plan, passages) for plan in plans]),
        rescued=_shares([_units(named, passages) for named in rescues]),
        narrow=_shares([_units([((), step.parts) for step in plan.steps], passages) for plan in plans]),
    )


def cited_units(plan: Sketch, passages: Mapping[int, Sequence[int]]) -> frozenset[Unit]:
    """Return every unit that some step of a plan depends on."""
    return _units([(step.cites, step.parts) for step in plan.steps], passages)


def _units(
    named: Iterable[tuple[Iterable[int], Iterable[Unit]]], passages: Mapping[int, Sequence[int]]
) -> frozenset[Unit]:
    """Return the units that one plan names; a passage counts for its record, too."""
    found: set[Unit] = set()
    for spans, parts in named:
        found.update((index, number) for index in spans for number in (0, *passages.get(index, ())))
        found.update(unit for index, number in parts for unit in ((index, 0), (index, number)))
    return frozenset(found)


def _shares(named: Sequence[frozenset[_Named]]) -> dict[_Named, float]:
    counts = Counter(one for some in named for one in some)
    return {one: count / len(named) for one, count in sorted(counts.items())}
