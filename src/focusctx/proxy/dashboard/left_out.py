"""Steps that a session's current view leaves out or shortens, with their originals from the store, and a search."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...config import FocusConfig
from ...pipeline.excerpt import blocks_of
from ...pipeline.outline import Outline, Outlines, Parts, joint_records
from ...pipeline.split import read_history
from ...session.store import Archived
from ...types import Fate, Span
from ..conversations import LiveConversation
from .data import Json, as_blocks, lengths_of, what_it_did

_ID = re.compile(r"\s*s_(\d{1,9})(?:\.\d{1,9})?\s*", re.IGNORECASE)
_BEFORE, _AFTER = 60, 160
"""Characters that a search result shows before and after the first word found."""


@dataclass(frozen=True, slots=True)
class LeftOutStep:
    """A step that the agent does not see whole."""

    span: Span
    """The original."""
    format: str
    fate: Fate
    parts: Parts | None
    """The parts that the agent sees; None if it sees nothing of the step."""
    ending: str
    """The line behind its last result that tells of steps that are gone, or ""."""
    left: int
    """Tokens that stay of it."""
    reason: str
    """Reason given by the sketches when it was left out."""
    outline: Outline

    @property
    def text(self) -> str:
        return "\n".join(filter(None, [self.span.thought, self.span.action, self.span.observation]))


def left_out_steps(live: LiveConversation) -> tuple[list[LeftOutStep], list[int]]:
    """Return the steps that are left out or shortened now, and the numbers of those without an original in the store.

    Reads the store, so it may raise `StoreError` and belongs on a thread.
    """
    conversation = live.conversation
    if conversation is None:
        return [], []
    now = conversation.left_out
    archived = [one for one in conversation.archived() if one.index in now.spans]
    wire_format, focus = live.key.format, live.session.focus
    outlines = Outlines(wire_format, focus.count, focus.config.reads)
    spans = [_original(one, wire_format) for one in archived]
    lines = joint_records(spans, (), now.shown, outlines)
    steps = [
        _step(span, one.reason, now.shown.get(span.index), lines.get(span.index, ""), outlines)
        for span, one in zip(spans, archived, strict=True)
    ]
    return steps, sorted(now.spans.difference(one.index for one in archived))


def _original(archived: Archived, format: str) -> Span:
    # Only messages of the step itself are archived: a user's message among them is an observation.
    history = read_history(archived.messages, FocusConfig(observations="always"), len, format=format)
    return replace(history.spans[0], index=archived.index, tokens=archived.tokens)


def _step(span: Span, reason: str, parts: Parts | None, ending: str, outlines: Outlines) -> LeftOutStep:
    fate: Fate = "dropped" if parts is None else "excerpt" if any(number > 0 for number in parts) else "record"
    left = 0 if parts is None else outlines.tokens(span, parts, ending)
    return LeftOutStep(span, outlines.format, fate, parts, ending, left, reason, outlines.of(span))


def step_texts(step: LeftOutStep) -> list[Json]:
    """Return all texts of a step, with the marks that the agent sees."""
    return as_blocks(blocks_of(step.span, step.format, step.parts, step.ending))


def found_steps(steps: Sequence[LeftOutStep], query: str) -> list[Json]:
    """Describe the steps whose original holds every word of the query, or the one with that id; all if it is empty."""
    words = query.split()
    if named := _ID.fullmatch(query):
        steps, words = [step for step in steps if step.span.index == int(named[1])], []
    patterns = [re.compile(re.escape(word), re.IGNORECASE) for word in words]
    return [
        {
            "index": step.span.index,
            "fate": step.fate,
            "tokens": step.span.tokens,
            "left": step.left,
            "what": what_it_did(step.span),
            "lengths": lengths_of(step.span),
            "reason": step.reason,
            "hit": _hit(step, patterns) if patterns else None,
        }
        for step in steps
        if all(pattern.search(step.text) for pattern in patterns)
    ]


def _hit(step: LeftOutStep, patterns: Sequence[re.Pattern[str]]) -> Json:
    """Return the words around the first match, and the passage that holds most of the words."""
    scores = {
        passage.number: sum(pattern.search(passage.text) is not None for pattern in patterns)
        for passage in step.outline.passages
    }
    best = max(scores, key=lambda number: (scores[number], -number), default=0)
    if not scores.get(best):
        best = 0
    text = step.outline.text_of(best) if best else step.text
    found = next(match for pattern in patterns if (match := pattern.search(text)))
    start, end = max(found.start() - _BEFORE, 0), min(found.end() + _AFTER, len(text))
    return {
        "before": ("…" if start else "") + text[start : found.start()],
        "words": found[0],
        "after": text[found.end() : end] + ("…" if end < len(text) else ""),
        "passage": f"s_{step.span.index}.{best}" if best else None,
        "seen": step.parts is not None and best in step.parts,
    }
