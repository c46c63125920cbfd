"""Step 6, keep: `S_keep = S_U ∪ S_R ∪ pinned`. The steps beyond the paper make another selection of this one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

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
    skeletons: frozenset[int] = frozenset()
    """Spans that stay without their observation."""
    notes: Mapping[int, str] = field(default_factory=dict)
    """Why a span stays, whole or as a skeleton, that too few sketches ask for, or goes though enough of them do."""


def select(history: History, scores: Scores, pinned: Mapping[int, str], config: FocusConfig) -> Selection:
    """Thresholds over the sketches' votes, plus what may never be dropped."""
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
    """The selection with these spans kept whole, too."""
    more = replace(
        selection,
        kept=selection.kept.union(spans),
        skeletons=selection.skeletons.difference(spans),
        notes={**selection.notes, **dict.fromkeys(spans, why)},
    )
    return with_companions(more, history, config)


def with_companions(selection: Selection, history: History, config: FocusConfig) -> Selection:
    """The selection with the spans that must stay because of what stays."""
    companions = companions_of(history, selection.kept | selection.skeletons, config)
    return replace(
        selection,
        kept=selection.kept | companions.keys(),
        skeletons=selection.skeletons - companions.keys(),
        pinned={**companions, **selection.pinned},
    )
