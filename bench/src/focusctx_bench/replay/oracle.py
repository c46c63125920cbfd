"""The oracle: knows the future, and keeps the fewest tokens it can find that hold all of what it needs.

A greedy choice, so an upper bound on the size of the smallest such set: again and again the span with most of the
missing facts per token.
"""

from __future__ import annotations

from focusctx.baselines.turnwise import Choice, Turnwise
from focusctx.pipeline.budget import pinned_spans
from focusctx.replay.facts import text_of
from focusctx.types import History

from .points import Point

ORACLE = "oracle"


class Oracle(Turnwise):
    name = ORACLE

    def __init__(self, point: Point) -> None:
        super().__init__()
        self._needed = point.needed

    async def choose(self, history: History) -> Choice | None:
        held = {span.index: {fact for fact in self._needed if fact in text_of(span)} for span in history.spans}
        kept = set(pinned_spans(history, None))
        missing = set(self._needed).difference(*(held[index] for index in kept))
        while missing:
            best = max(history.spans, key=lambda span: len(held[span.index] & missing) / max(span.tokens, 1))
            kept.add(best.index)
            missing -= held[best.index]
        return Choice(kept)
