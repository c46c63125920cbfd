"""Points: places in a recorded run at which one compression of the full history is judged by all that came after.

A run's own points are where its full history, before an assistant turn, first passes δ, 2δ and 4δ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from focusctx.baselines.method import Choice, Turnwise
from focusctx.config import FocusConfig
from focusctx.errors import BenchError
from focusctx.pipeline.must_stay import pinned_spans
from focusctx.replay.facts import Evidence, text_of
from focusctx.replay.walk import Seen, Views
from focusctx.types import History, Message

Place: TypeAlias = tuple[str, str, int]
"""A file, a run in it, and how many of the run's messages."""

MULTIPLES = (1, 2, 4)


@dataclass(frozen=True)
class Point:
    """One place in a run."""

    evidence: Evidence
    messages: int
    """Number of leading messages of the run that are the history."""
    budget: int
    """δ, of the events that are judged here."""

    @property
    def file(self) -> str:
        return self.evidence.run.file

    @property
    def run(self) -> str:
        return self.evidence.run.id

    @property
    def place(self) -> Place:
        return self.file, self.run, self.messages

    def __str__(self) -> str:
        return f"{self.evidence.run}, message {self.messages}"

    @property
    def sent(self) -> Sequence[Message]:
        """The full history, as messages."""
        return self.evidence.run.messages[: self.messages]

    @cached_property
    def history(self) -> History:
        return self.evidence.run.history(self.messages)

    @cached_property
    def needed(self) -> frozenset[str]:
        """Distinct facts that later actions use and that only past spans gave."""
        return self.evidence.needed_after(self.messages)

    @cached_property
    def views(self) -> Views:
        return Views(self.history, self.needed)

    @cached_property
    def at_stake(self) -> tuple[int, ...]:
        """The spans that may be dropped."""
        pinned = pinned_spans(self.history, FocusConfig().pin)
        return tuple(span.index for span in self.history.spans if span.index not in pinned)

    @property
    def span_tokens(self) -> int:
        return sum(span.tokens for span in self.history.spans)

    def target(self, share: float) -> int:
        """Return the target that leaves this share of the spans' tokens beside the text that always stays."""
        return max(self.history.tokens - round((1 - share) * self.span_tokens), 2)

    def judge(self, view: Sequence[Message]) -> Judged:
        """Compare a view of the history with what later actions need."""
        seen = self.views.look(view)
        fixed = self.history.tokens - self.span_tokens
        return Judged(
            seen=seen,
            needed=len(self.needed),
            there=len(self.needed & seen.facts),
            left=seen.tokens - fixed,
            words_lost=len(Counter(self.evidence.words(self.messages)) - seen.texts),
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """Figures of a view at a point."""

    seen: Seen
    needed: int
    there: int
    left: int
    """Tokens of spans."""
    words_lost: int
    """Texts of the user or of system prompts that are not there."""


def points_of(evidence: Evidence, budget: int, multiples: Collection[int] = MULTIPLES) -> list[Point]:
    """Return the run's points: one for each multiple of δ that its history passes, but only one at the same place."""
    waiting = sorted(multiples)
    found: list[Point] = []
    for action in evidence.actions:
        tokens = evidence.tokens_before(action.messages)
        passed = [multiple for multiple in waiting if tokens > multiple * budget]
        if passed:
            waiting = waiting[len(passed) :]
            found.append(Point(evidence, action.messages, budget))
    return found


def point_at(evidence: Evidence, messages: int, budget: int) -> Point:
    """Return the point at a given place."""
    if not 0 < messages <= len(evidence.run.messages):
        raise BenchError(
            f"{evidence.run} has {len(evidence.run.messages)} messages, not {messages}: is it another file?"
        )
    return Point(evidence, messages, budget)


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
