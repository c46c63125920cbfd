"""Step 6, keep: `S_keep = S_U ∪ S_R ∪ pinned`. The steps beyond the paper modify this selection."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from ..config import FocusConfig
from ..types import History
from .companions import companions_of
from .score import Scores


@dataclass(frozen=True, slots=True)
class Selection:
    """The spans that stay, and the reasons."""

    kept: frozenset[int]
    useful: frozenset[int]
    """`S_U`: cited often enough."""
    rescued: frozenset[int]
    """`S_R` without `S_U`: kept only because the defensive check asked for them."""
    pinned: Mapping[int, str]
    skeletons: frozenset[int] = frozenset()
    """Spans that stay without their observation."""
    notes: Mapping[int, str] = field(default_factory=dict)
    """Why a span stays though too few sketches ask for it, whole or as a skeleton, or goes though enough do."""


def select(history: History, scores: Scores, pinned: Mapping[int, str], config: FocusConfig) -> Selection:
    """Apply the thresholds to the sketches' votes, and add the spans that must never be dropped."""
    useful = frozenset(index for index, share in scores.utility.items() if share >= config.threshold)
    rescued = frozenset(
        index for index, share in scores.rescue.items() if config.defensive and share >= config.threshold
    )
    kept = useful | rescued | pinned.keys()
    others = frozenset(span.index for span in history.spans) if config.dropped == "skeleton" else frozenset[int]()
    selection = Selection(kept, useful, rescued - useful, pinned, others - kept)
    return with_companions(selection, history, config)


def bring_back(
    selection: Selection, spans: Collection[int], why: str, history: History, config: FocusConfig
) -> Selection:
    """Keep these spans whole, too."""
    more = replace(
        selection,
        kept=selection.kept.union(spans),
        skeletons=selection.skeletons.difference(spans),
        notes={**selection.notes, **dict.fromkeys(spans, why)},
    )
    return with_companions(more, history, config)


def with_companions(selection: Selection, history: History, config: FocusConfig) -> Selection:
    """Add the spans that must stay because others stay."""
    companions = companions_of(history, selection.kept | selection.skeletons, config)
    return replace(
        selection,
        kept=selection.kept | companions.keys(),
        skeletons=selection.skeletons - companions.keys(),
        pinned={**companions, **selection.pinned},
    )
