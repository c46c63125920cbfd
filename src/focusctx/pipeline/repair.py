"""Beyond the paper, set repair: spans that each look useless can be needed together.

With many sketches, each of several dropped spans may be cited by few of them, and yet most sketches cite one or
another. While too many do, the dropped span that most of these cite comes back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..config import FocusConfig
from ..types import History, Sketch
from .keep import Selection, bring_back


def repair(history: History, selection: Selection, plans: Sequence[Sketch], config: FocusConfig) -> Selection:
    """The selection with `û_S` of what it drops within the tolerance."""
    if config.repair is None:
        return selection
    tokens = {span.index: span.tokens for span in history.spans if span.index not in selection.kept}
    missing = [plan.cited & tokens.keys() for plan in plans]
    back: list[int] = []
    while sum(map(bool, missing)) > config.repair * len(plans):
        votes = Counter(index for lacks in missing for index in lacks)
        best = max(votes, key=lambda index: (votes[index], -tokens[index], index))
        back.append(best)
        missing = [lacks - {best} for lacks in missing]
    return bring_back(selection, back, "too many sketches cite a dropped span", history, config)
