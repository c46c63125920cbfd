"""Step 6, keep: `S_keep = S_U ∪ S_R ∪ pinned`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..config import FocusConfig
from ..types import History
from .companions import companions_of
from .score import Scores


@dataclass(frozen=True, slots=True)
class Selection:
    """Which spans stay, and on whose word."""

    kept: frozenset[int]
    useful: frozenset[int]
    """`S_U`: cited often enough."""
    rescued: frozenset[int]
    """`S_R` without `S_U`: kept only because the defensive check asked for them."""
    pinned: Mapping[int, str]


def select(history: History, scores: Scores, pinned: Mapping[int, str], config: FocusConfig) -> Selection:
    """Thresholds over the sketches' votes, plus what may never be dropped."""
    useful = frozenset(index for index, share in scores.utility.items() if share >= config.threshold)
    rescued = frozenset(
        index for index, share in scores.rescue.items() if config.defensive and share >= config.threshold
    )
    chosen = useful | rescued | pinned.keys()
    companions = companions_of(history, chosen, config)
    return Selection(
        kept=chosen | companions.keys(),
        useful=useful,
        rescued=rescued - useful,
        pinned={**companions, **pinned},
    )
