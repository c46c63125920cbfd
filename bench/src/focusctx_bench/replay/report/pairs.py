"""FOCUS beside each comparator that got its share of tokens.

Masking keeps every thought and action, so at many steps it has far more tokens than FOCUS left, and a comparison over
all steps is none at the same share. It is therefore made twice: over all, and within masking's reach, which is where it
has at most a tenth more tokens than FOCUS.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic

from focusctx.replay.lines import Interval, Line, R
from focusctx.replay.record import ReplayRecord, RunRecord

from ..judge import PointRecord

FEW = 5
"""Runs below which an interval by bootstrap says nothing."""
_REACH = 1.1


@dataclass(frozen=True)
class Pair(Generic[R]):
    focus: Line[R]
    other: Line[R]
    name: str
    """Name of the comparator."""
    counted: float = 1.0
    """The share of due steps, or of points, that the comparison is over."""

    @property
    def is_everywhere(self) -> bool:
        return self.counted == 1.0

    @cached_property
    def runs(self) -> int:
        """Number of runs in which both have a recall."""
        both = (place for place in self.focus.records if place in self.other.records)
        return len({place[:2] for place in both if self.focus.records[place].recall is not None})

    @cached_property
    def recall(self) -> Interval | None:
        """FOCUS minus the comparator."""
        return self.focus.minus(self.other, "recall")

    @cached_property
    def whole(self) -> Interval | None:
        return self.focus.minus(self.other, "whole")

    @property
    def more_tokens(self) -> float:
        """Tokens that the comparator has beyond FOCUS, as a share of the tokens of spans."""
        ours, theirs = (line.average("span_share") for line in (self.focus, self.other))
        return (theirs or 0.0) - (ours or 0.0)

    @property
    def verdict(self) -> str:
        if self.recall is None or self.runs < FEW:
            return f"only {self.runs} runs"
        if self.recall.low > 0:
            return "above"
        return "below" if self.recall.high < 0 else "no clear difference"


def pairs(lines: Sequence[Line[R]]) -> list[Pair[R]]:
    """For every FOCUS its comparators; those that cannot go as low at all have no second comparison."""
    found = []
    for focus in lines:
        for other in lines:
            if focus.is_focus and other.is_matched_to(focus):
                name = other.name.partition(" @")[0]
                found.append(Pair(focus, other, name))
                if other.method.startswith("masking"):
                    found += _within_reach(focus, other, f"{name} within reach")
    return [pair for pair in found if pair.recall is not None]


def _within_reach(focus: Line[R], other: Line[R], name: str) -> Iterator[Pair[R]]:
    both = {place: (focus.records[place], other.records[place]) for place in focus.records if place in other.records}
    near = {place: found for place, (ours, theirs) in both.items() if (found := _near(ours, theirs)) is not None}
    share = sum(_size(ours) for ours, _ in near.values()) / max(sum(_size(ours) for ours, _ in both.values()), 1)
    if 0 < share < 1:
        ours, theirs = ({place: found[side] for place, found in near.items()} for side in (0, 1))
        yield Pair(replace(focus, records=ours), replace(other, records=theirs), name, share)


def _near(focus: Any, other: Any) -> tuple[Any, Any] | None:
    """Return both with only those steps due at which the second is within reach; None for a point where it is not."""
    if isinstance(focus, PointRecord):
        return (focus, other) if _fits(focus.span_left, other.span_left) else None
    near = [_fits(ours.span_left, theirs.span_left) for ours, theirs in zip(focus.steps, other.steps, strict=True)]
    return _only(focus, near), _only(other, near)


def _only(record: RunRecord, near: Sequence[bool]) -> RunRecord:
    steps = zip(record.steps, near, strict=True)
    return replace(record, steps=tuple(replace(step, due=step.due and counts) for step, counts in steps))


def _fits(ours: int, theirs: int) -> bool:
    return theirs <= _REACH * ours


def _size(record: ReplayRecord) -> int:
    return len(record.due) if isinstance(record, RunRecord) else 1


_SAID = {"above": "above", "no clear difference": "not clearly above", "below": "below"}


def verdicts(lines: Sequence[Line[R]]) -> list[str]:
    """One sentence for each FOCUS."""
    every = pairs(lines)
    sentences = []
    for focus in dict.fromkeys(pair.focus.name for pair in every):
        others: defaultdict[str, list[str]] = defaultdict(list)
        for pair in every:
            if pair.focus.name == focus:
                others[_SAID.get(pair.verdict, "")].append(pair.name.lower())
        parts = [f"{how} {_listed(others[how])}" for how in _SAID.values() if how in others]
        if not parts:
            sentences.append(f"There are too few runs for a verdict on {focus}.")
            continue
        if "" in others:
            parts.append(f"with too few runs for a verdict on {_listed(others[''])}")
        sentences.append(f"At its share of tokens, {focus} has a recall {'; '.join(parts)}.")
    return sentences


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
