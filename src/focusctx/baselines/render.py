"""Render turns as text for models: summarisers, embedders, optimisers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..types import History, Span


def turn_as_text(span: Span) -> str:
    """Render one turn, word for word."""
    named = (("Thought", span.thought), ("Action", span.action), ("Observation", span.observation))
    return "\n".join(f"{name}: {text}" for name, text in named if text)


def turns_as_text(spans: Iterable[Span]) -> str:
    return "\n\n".join(f"Step {span.index}\n{turn_as_text(span)}" for span in spans)


def dialogue_as_text(history: History, spans: Sequence[Span]) -> str:
    """Render turns with the user's words between them, in order. The first words, the task, are left out."""
    pieces: list[str] = []
    for span in spans:
        pieces.append(turns_as_text([span]))
        pieces += [f"The user:\n{turn.text}" for turn in history.user_turns if turn.after == span.index]
    return "\n\n".join(pieces)
