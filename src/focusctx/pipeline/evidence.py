"""The record of an event: for every span the outcome, the sketches that asked for it, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TypeAlias, overload

from ..types import Decision, Fate, History, Sketch, Unit
from .keep import Selection
from .outline import shown_passages
from .score import Scores

Lines: TypeAlias = dict[tuple[int, str], None]
Said: TypeAlias = defaultdict[int, Lines]
"""For each span, the lines about it and the sketches that wrote them, in order."""


def decisions(history: History, sketches: Sequence[Sketch], scores: Scores, selection: Selection) -> Sequence[Decision]:
    """Return one decision per span."""
    return _Later(partial(_decisions, history, sketches, scores, selection))


def reasons(sketches: Sequence[Sketch], spans: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return, for each span that a sketch names, the steps that need it and the risks of dropping it."""
    steps, rescues = _said(sketches, spans)
    return {index: _words(steps.get(index), rescues.get(index)) for index in {*steps, *rescues}}


class _Later(Sequence[Decision]):
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
    steps, rescues = _said(sketches, [span.index for span in history.spans])
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


def _said(sketches: Sequence[Sketch], spans: Collection[int]) -> tuple[Said, Said]:
    """Return the lines in which plans cite these spans, and the lines in which they rescue them."""
    asked = frozenset(spans)
    steps: Said = defaultdict(dict)
    rescues: Said = defaultdict(dict)
    for number, sketch in enumerate(sketches, 1):
        if sketch.problem is None:
            _note(steps, number, ((asked & {*step.cites, *_spans(step.parts)}, step.text) for step in sketch.steps))
            wanted = ((asked & {*one.spans, *_spans(one.parts)}, one.reason) for one in sketch.rescues)
            _note(rescues, number, wanted)
    return steps, rescues


def _note(said: Said, number: int, lines: Iterable[tuple[Iterable[int], str]]) -> None:
    for spans, text in lines:
        for index in spans:
            said[index][number, text] = None


def _speakers(said: Lines | None) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for number, _ in said)) if said else ()


def _words(*said: Lines | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for lines in said if lines for _, text in lines if text)) if any(said) else ()


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
