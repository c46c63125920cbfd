"""Step 5, score: the share of sketches that cite a span, and the share that rescue it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from ..types import Sketch


@dataclass(frozen=True, slots=True)
class Scores:
    """`û_i` and the rescue share of every span that some sketch names; all others are 0."""

    utility: dict[int, float]
    rescue: dict[int, float]


def score(sketches: Sequence[Sketch]) -> Scores:
    """Compute citation and rescue frequencies over the sketches that are plans."""
    plans = [sketch for sketch in sketches if sketch.problem is None]
    return Scores(
        utility=_shares([plan.cited for plan in plans]),
        rescue=_shares([plan.rescued for plan in plans]),
    )


def _shares(named: Sequence[frozenset[int]]) -> dict[int, float]:
    counts = Counter(chain.from_iterable(named))
    return {index: count / len(named) for index, count in sorted(counts.items())}
