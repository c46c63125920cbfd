"""The record of an event: for every span, what became of it, who asked for that and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ..types import Decision, Fate, History, Sketch
from .keep import Selection
from .score import Scores

Lines: TypeAlias = dict[tuple[int, str], None]
Said: TypeAlias = defaultdict[int, Lines]
"""For each span, which sketch said what about it, in the order it was said."""


def decisions(
    history: History, sketches: Sequence[Sketch], scores: Scores, selection: Selection, *, skeletons: bool
) -> tuple[Decision, ...]:
    """One decision per span; with `skeletons`, those not kept leave one."""
    lost: Fate = "skeleton" if skeletons else "dropped"
    steps: Said = defaultdict(dict)
    rescues: Said = defaultdict(dict)
    for number, sketch in enumerate(sketches, 1):
        if sketch.problem is None:
            _note(steps, number, ((step.cites, step.text) for step in sketch.steps))
            _note(rescues, number, ((rescue.spans, rescue.reason) for rescue in sketch.rescues))
    return tuple(
        Decision(
            index=(index := span.index),
            fate=_fate(index, selection, lost),
            utility=scores.utility.get(index, 0.0),
            rescue=scores.rescue.get(index, 0.0),
            pinned=selection.pinned.get(index),
            cited_by=_speakers(steps.get(index)),
            rescued_by=_speakers(rescues.get(index)),
            reasons=_words(steps.get(index), rescues.get(index)),
            tokens=span.tokens,
        )
        for span in history.spans
    )


def _note(said: Said, number: int, lines: Iterable[tuple[Iterable[int], str]]) -> None:
    for spans, text in lines:
        for index in spans:
            said[index][number, text] = None


def _speakers(said: Lines | None) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for number, _ in said)) if said else ()


def _words(*said: Lines | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for lines in said if lines for _, text in lines if text)) if any(said) else ()


def _fate(index: int, selection: Selection, lost: Fate) -> Fate:
    if index in selection.pinned:
        return "pinned"
    if index in selection.rescued:
        return "rescued"
    return "kept" if index in selection.kept else lost
