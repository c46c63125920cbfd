"""From sketches to a decision, and from the decision to a result with its evidence.

The evidence says for every span what became of it, which sketches asked for it, and why. A result is made once, when
the selection is applied.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeAlias, overload

from .. import theory
from ..config import FocusConfig
from ..types import Certificate, Decision, Fate, History, Message, Result, Sketch, Unit, Usage
from .keep import Scores, Selection, Survey, cited_units, score, select, select_parts, target_tokens
from .must_stay import NEWER, results_like
from .outline import shown_passages

Numbers: TypeAlias = Mapping[int, Sequence[int]]
"""The numbers of the passages of each span."""
_Lines: TypeAlias = dict[tuple[int, str], None]
_LinesBySpan: TypeAlias = defaultdict[int, _Lines]
"""For each span, the lines about it and the sketches that wrote them, in order."""


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


def decisions(history: History, sketches: Sequence[Sketch], scores: Scores, selection: Selection) -> Sequence[Decision]:
    """Return one decision per span."""
    return _LazyDecisions(partial(_decisions, history, sketches, scores, selection))


def reasons(sketches: Sequence[Sketch], spans: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return, for each span that a sketch names, the steps that need it and the risks of dropping it."""
    steps, rescues = _lines_about(sketches, spans)
    return {index: _words(steps.get(index), rescues.get(index)) for index in {*steps, *rescues}}


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


class _LazyDecisions(Sequence[Decision]):
    """Decisions computed on first access: an agent waits for the messages, not for the evidence."""

    def __init__(self, work_out: Callable[[], tuple[Decision, ...]]) -> None:
        self._work_out = work_out

    @cached_property
    def _all(self) -> tuple[Decision, ...]:
        return self._work_out()

    @overload
    def __getitem__(self, place: int) -> Decision: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Decision]: ...

    def __getitem__(self, place: int | slice) -> Decision | Sequence[Decision]:
        return self._all[place]

    def __len__(self) -> int:
        return len(self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all)

    def __repr__(self) -> str:
        return repr(self._all)

    def __reduce__(self) -> tuple[type[tuple[Decision, ...]], tuple[tuple[Decision, ...]]]:
        return tuple, (self._all,)


def _decisions(
    history: History, sketches: Sequence[Sketch], scores: Scores, selection: Selection
) -> tuple[Decision, ...]:
    steps, rescues = _lines_about(sketches, [span.index for span in history.spans])
    return tuple(
        Decision(
            index=(index := span.index),
            fate=_fate(index, selection),
            utility=scores.utility.get(index, 0.0),
            rescue=scores.rescue.get(index, 0.0),
            pinned=selection.pinned.get(index),
            cited_by=_speakers(steps.get(index)),
            rescued_by=_speakers(rescues.get(index)),
            reasons=_words(steps.get(index), rescues.get(index)),
            tokens=span.tokens,
            note=selection.notes.get(index),
            parts=shown_passages(selection.shortened.get(index, ())),
            left=span.tokens if index in selection.kept else selection.sizes.get(index, 0),
        )
        for span in history.spans
    )


def _lines_about(sketches: Sequence[Sketch], spans: Collection[int]) -> tuple[_LinesBySpan, _LinesBySpan]:
    """Return the lines in which plans cite these spans, and the lines in which they rescue them."""
    asked = frozenset(spans)
    steps: _LinesBySpan = defaultdict(dict)
    rescues: _LinesBySpan = defaultdict(dict)
    for number, sketch in enumerate(sketches, 1):
        if sketch.problem is None:
            _note(steps, number, ((asked & {*step.cites, *_spans(step.parts)}, step.text) for step in sketch.steps))
            wanted = ((asked & {*one.spans, *_spans(one.parts)}, one.reason) for one in sketch.rescues)
            _note(rescues, number, wanted)
    return steps, rescues


def _note(lines_by_span: _LinesBySpan, number: int, lines: Iterable[tuple[Iterable[int], str]]) -> None:
    for spans, text in lines:
        for index in spans:
            lines_by_span[index][number, text] = None


def _speakers(lines: _Lines | None) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for number, _ in lines)) if lines else ()


def _words(*several: _Lines | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for lines in several if lines for _, text in lines if text))


def _spans(parts: Iterable[Unit]) -> Iterator[int]:
    return (index for index, _ in parts)


def _fate(index: int, selection: Selection) -> Fate:
    if index in selection.shortened:
        return "excerpt" if shown_passages(selection.shortened[index]) else "record"
    if index not in selection.kept:
        return "dropped"
    if index in selection.pinned:
        return "pinned"
    return "rescued" if index in selection.rescued else "kept"
