"""From sketches to a decision: score them, and select what stays. A result is made from the selection, once."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .. import theory
from ..config import FocusConfig
from ..types import Certificate, History, Message, Result, Sketch, Unit, Usage
from .budget import NEWER
from .deeds import results_like
from .evidence import decisions
from .keep import Selection, Survey, select, select_parts, target_tokens
from .outline import shown_passages
from .score import cited_units, score

Numbers: TypeAlias = Mapping[int, Sequence[int]]
"""The numbers of the passages of each span."""


@dataclass(frozen=True, slots=True)
class Drafted:
    """The draft's sketches, and what was read beside them."""

    sketches: tuple[Sketch, ...]
    problem: str | None
    """Why there are fewer sketches than wanted, or None."""
    seen: Numbers
    """The spans and passages the draft was shown; it can only judge those."""
    survey: Survey | None
    usage: Usage
    failure: str | None
    """Why the sketches do not support a decision, or None."""

    @property
    def plans(self) -> list[Sketch]:
        """The sketches that vote."""
        return [sketch for sketch in self.sketches if sketch.problem is None]


def passages_of(history: History) -> Numbers:
    """Return the numbers of every span's passages; none where spans stay or go whole."""
    outlines = history.outlines
    return {
        span.index: [passage.number for passage in outlines.of(span).passages] if outlines else []
        for span in history.spans
    }


def decide(
    history: History,
    drafted: Drafted,
    pinned: Mapping[int, str],
    config: FocusConfig,
    *,
    regrets: Collection[int] = (),
    reserve: int = 0,
) -> Selection:
    """Select what stays of a history that may have grown since the sketches were sampled: new spans stay.

    `regrets` are spans that looked something up again because it had been cut: results of the same tools come early.
    `reserve` tokens are left free below the target, for what is still to come.
    """
    # The draft was told that the newest span stays, so it need not cite it: it stays even if newer ones have come.
    newest_seen = max(drafted.seen, default=0)
    newer = {span.index: NEWER for span in history.spans if span.index >= newest_seen}
    scores = score(drafted.sketches, drafted.seen)
    if drafted.survey is None:
        return select(history, scores, {**newer, **pinned}, config)
    alike = results_like(history, drafted.survey.outlines, regrets)
    return select_parts(history, scores, pinned, drafted.survey, config, newer=newer, alike=alike, reserve=reserve)


def report(
    messages: Sequence[Message],
    history: History,
    drafted: Drafted,
    selection: Selection,
    *,
    config: FocusConfig,
    started: float,
    warnings: Sequence[str] = (),
    regrets: tuple[int, ...] = (),
) -> Result:
    """Return the result of an event: the messages to send, and the evidence."""
    scores = score(drafted.sketches, drafted.seen)
    stays = selection.kept | selection.shortened.keys()
    dropped = tuple(span.index for span in history.spans if span.index not in stays)
    return Result(
        messages=messages,
        compressed=len(selection.kept) < len(history.spans),
        kept=tuple(sorted(selection.kept)),
        dropped=dropped,
        shortened={index: shown_passages(parts) for index, parts in sorted(selection.shortened.items())},
        rescued=tuple(sorted(selection.rescued)),
        pinned=tuple(sorted(selection.pinned)),
        utilities={span.index: scores.utility.get(span.index, 0.0) for span in history.spans},
        sketches=drafted.sketches,
        decisions=decisions(history, drafted.sketches, scores, selection),
        certificate=_certificate(drafted, selection, dropped, config),
        tokens_before=history.tokens,
        tokens_after=selection.tokens,
        usage=drafted.usage,
        latency=time.perf_counter() - started,
        target=target_tokens(config),
        regrets=regrets,
        warnings=(*warnings, *_warnings(drafted, selection)),
        history=history,
        prompt=config.prompt,
    )


def _certificate(drafted: Drafted, selection: Selection, dropped: Sequence[int], config: FocusConfig) -> Certificate:
    """Bound what leaving these spans and passages out can change."""
    left_out: set[Unit] = {(index, number) for index in dropped for number in (0, *drafted.seen.get(index, ()))}
    for index, parts in selection.shortened.items():
        left_out |= {(index, number) for number in drafted.seen.get(index, ()) if number not in parts}
    cited = [cited_units(plan, drafted.seen) for plan in drafted.plans]
    return theory.certificate(cited, left_out, confidence=config.confidence, m_max=config.m_max)


def _warnings(drafted: Drafted, selection: Selection) -> list[str]:
    """Problems worth reporting although the event succeeded."""
    found = [one for one in (drafted.problem, selection.excess) if one]
    for number, sketch in enumerate(drafted.sketches, 1):
        if sketch.problem:
            found.append(f"sketch {number} could not be read as a plan: {sketch.problem}")
        elif sketch.unknown:
            found.append(f"sketch {number} cites steps that do not exist: {', '.join(sketch.unknown)}")
    return found
