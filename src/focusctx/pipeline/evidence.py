"""The result of an event with its evidence: for every span what became of it, which sketches asked for it, and why.

Nothing here changes what is kept. A session makes the result of an event only when somebody looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import overload

from .. import theory
from ..config import FocusConfig
from ..types import Certificate, Decision, Fate, History, Message, Result, Sketch, Unit
from .draft import Drafted, Lines, lines_about, words_in
from .keep import Scores, Selection, cited_units, score, target_tokens
from .outline import shown_passages


def report(
    messages: Sequence[Message],
    history: History,
    drafted: Drafted,
    selection: Selection,
    *,
    config: FocusConfig,
    latency: float,
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
        latency=latency,
        target=target_tokens(config),
        regrets=regrets,
        warnings=(*warnings, *_warnings(drafted, selection)),
        history=history,
        prompt=config.prompt,
    )


def decisions(history: History, sketches: Sequence[Sketch], scores: Scores, selection: Selection) -> Sequence[Decision]:
    """Return one decision per span."""
    return _LazyDecisions(partial(_decisions, history, sketches, scores, selection))


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
    steps, rescues = lines_about(sketches, [span.index for span in history.spans])
    return tuple(
        Decision(
            index=(index := span.index),
            fate=_fate(index, selection),
            utility=scores.utility.get(index, 0.0),
            rescue=scores.rescue.get(index, 0.0),
            pinned=selection.pinned.get(index),
            cited_by=_speakers(steps.get(index)),
            rescued_by=_speakers(rescues.get(index)),
            reasons=words_in(steps.get(index), rescues.get(index)),
            tokens=span.tokens,
            note=selection.notes.get(index),
            parts=shown_passages(selection.shortened.get(index, ())),
            left=span.tokens if index in selection.kept else selection.sizes.get(index, 0),
        )
        for span in history.spans
    )


def _speakers(lines: Lines | None) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for number, _ in lines)) if lines else ()


def _fate(index: int, selection: Selection) -> Fate:
    if index in selection.shortened:
        return "excerpt" if shown_passages(selection.shortened[index]) else "record"
    if index not in selection.kept:
        return "dropped"
    if index in selection.pinned:
        return "pinned"
    return "rescued" if index in selection.rescued else "kept"
