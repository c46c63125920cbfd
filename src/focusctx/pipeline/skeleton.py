"""A span's skeleton: its thought and action stay, and a short placeholder replaces its observation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..types import History, Span
from ..wire import Kind, wire_named
from ..wire.part import join
from .split import Count


def skeleton_of(span: Span, format: str, count: Count) -> Span:
    """Return the span without its observation."""
    wire = wire_named(format)
    messages = tuple(wire.blank(message, None) for message in span.messages)
    parts = [part for place, message in enumerate(messages) for part in wire.read(message, place)]
    return replace(
        span,
        observation=join([part.text for part in parts if part.kind is not Kind.TURN]),
        messages=messages,
        tokens=sum(sum(map(count, part.counted)) + part.extra_tokens for part in parts),
    )


def skeleton_tokens(history: History, spans: Collection[int], count: Count) -> int:
    """Return the total tokens of these spans' skeletons."""
    found = (span for span in history.spans if span.index in spans)
    return sum(skeleton_of(span, history.format, count).tokens for span in found)
