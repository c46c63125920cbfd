"""Beyond the paper, strict budget: if the selection exceeds a hard limit, keep the best of it that fits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from ..config import FocusConfig
from ..knapsack import select_under_budget
from ..types import History
from .keep import Selection, with_companions
from .score import Scores


def limit(
    history: History, selection: Selection, scores: Scores, pinned: Mapping[int, str], config: FocusConfig
) -> Selection:
    """Return the selection of highest total utility within the limit; pinned spans stay whatever their size."""
    tokens = {span.index: span.tokens for span in history.spans}
    kept = [span for span in history.spans if span.index in selection.kept]
    room = (config.limit or 0) - history.tokens + sum(tokens.values())
    if config.limit is None or sum(span.tokens for span in kept) <= room:
        return selection
    # A step that continues another one's reasoning is kept or dropped together with it.
    units: defaultdict[int, list[int]] = defaultdict(list)
    for span in kept:
        units[span.needs or span.index].append(span.index)

    def value(index: int) -> float:
        asked = max(scores.utility.get(index, 0.0), scores.rescue.get(index, 0.0))
        return max(asked, config.threshold if index in selection.notes else 0.0)

    chosen = select_under_budget(
        {unit: sum(map(value, members)) for unit, members in units.items()},
        {unit: sum(tokens[index] for index in members) for unit, members in units.items()},
        room,
        [unit for unit, members in units.items() if not pinned.keys().isdisjoint(members)],
    )
    stays = frozenset(index for unit in chosen for index in units[unit])
    over = dict.fromkeys(selection.kept - stays, "over the limit")
    less = replace(
        selection,
        kept=stays,
        useful=selection.useful & stays,
        rescued=selection.rescued & stays,
        pinned=pinned,
        notes={**selection.notes, **over},
    )
    return with_companions(less, history, config)
