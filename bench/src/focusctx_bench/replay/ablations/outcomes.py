"""One variant at recorded points: what it keeps of what later actions use, and with how many tokens and sketches.

Where more sketches were recorded than a variant samples, it is judged with several groups of them, and the mean is
the point's outcome. Beside it: what the newest spans, and masked observations, keep in as many tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from focusctx.baselines.embedders import Embed
from focusctx.compressor import Focus
from focusctx.drafts.scripted import ScriptedDraft
from focusctx.replay.matched import comparator
from focusctx.types import Reply

from ..points import Judged, Place, Point
from ..sketches import PointSketches
from .variants import Variant

_GROUPS = 4
"""Groups of sketches that one variant is judged with at a point, at most."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One variant at one point, means over groups of sketches."""

    place: Place
    needed: int
    recall: float
    """1 where nothing was needed; such points count for tokens, not for recall."""
    complete: float
    """Whether all of it is there."""
    left: float
    """Share of the spans' tokens."""
    sketches: float
    """That were read."""
    failed: float
    newest: float
    """The recall of the newest spans with as many tokens …"""
    newest_left: float
    """… and their share of tokens, the same but for a span, more or less."""
    masking: float
    """The same for masked observations, which keep all thoughts and actions whatever those take."""
    masking_left: float


async def judge(variant: Variant, point: Point, recorded: PointSketches, embed: Embed) -> Outcome | None:
    """None where fewer sketches were recorded than the variant samples."""
    config = variant.at(point)
    groups = list(_groups(recorded.as_replies(), config.rollouts))
    if not groups:
        return None
    found = [await _once(Focus(ScriptedDraft(replies), config=config), point, embed) for replies in groups]
    return Outcome(
        place=point.place,
        needed=len(point.needed),
        recall=fmean(_recall(once.ours) for once in found),
        complete=fmean(once.ours.there == once.ours.needed for once in found),
        left=fmean(once.ours.left / point.span_tokens for once in found),
        sketches=fmean(once.sketches for once in found),
        failed=fmean(once.failed for once in found),
        newest=fmean(_recall(once.newest) for once in found),
        newest_left=fmean(once.newest.left / point.span_tokens for once in found),
        masking=fmean(_recall(once.masking) for once in found),
        masking_left=fmean(once.masking.left / point.span_tokens for once in found),
    )


class _Once(NamedTuple):
    """With one group of sketches."""

    ours: Judged
    newest: Judged
    masking: Judged
    sketches: int
    failed: bool


async def _once(focus: Focus, point: Point, embed: Embed) -> _Once:
    result = await focus.acompress(point.history)
    ours = point.judge(result.messages)
    quotas = {point.history.newest: ours.left}
    newest, masking = [
        point.judge((await comparator(name, "focus", quotas, embed).compress(point.sent)).messages)
        for name in ("fifo", "masking")
    ]
    return _Once(ours, newest, masking, len(result.sketches), result.failure is not None)


def _groups(replies: Sequence[Reply], size: int) -> Iterator[Sequence[Reply]]:
    for first in range(0, min(len(replies) // size, _GROUPS) * size, size):
        yield replies[first : first + size]


def _recall(judged: Judged) -> float:
    return judged.there / judged.needed if judged.needed else 1.0
