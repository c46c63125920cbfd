"""Step 5, score: how many of the sketches cite a span, and how many rescue it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..types import Sketch


@dataclass(frozen=True, slots=True)
class Scores:
    """`û_i` and the rescue share of every span that some sketch names; all others are 0."""

    utility: dict[int, float]
    rescue: dict[int, float]


def score(sketches: Sequence[Sketch]) -> Scores:
    """Citation and rescue frequencies over the sketches that are plans."""
    plans = [sketch for sketch in sketches if sketch.problem is None]
    return Scores(
        utility=_shares(Counter(index for plan in plans for index in plan.cited), len(plans)),
        rescue=_shares(Counter(index for plan in plans for index in plan.rescued), len(plans)),
    )


def _shares(counts: Counter[int], plans: int) -> dict[int, float]:
    return {index: count / plans for index, count in sorted(counts.items())}
