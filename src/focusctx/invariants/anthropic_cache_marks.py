"""Anthropic: at most four `cache_control` marks, and one-hour marks before five-minute ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..types import Message
from ..wire.part import typed_blocks
from .rule import Violation

MOST = 4


def anthropic_cache_marks_are_few_and_ordered(messages: Sequence[Message]) -> Iterator[Violation]:
    marks = [(position, mark) for position, message in enumerate(messages) for mark in _marks(message)]
    if len(marks) > MOST:
        yield Violation(marks[MOST][0], f"{len(marks)} cache_control marks, {MOST} are allowed")
    short_seen = False
    for position, mark in marks:
        if mark.get("ttl") != "1h":
            short_seen = True
        elif short_seen:
            yield Violation(position, "a one-hour cache mark after a five-minute one")


def _marks(message: Message) -> Iterator[Mapping[str, str]]:
    for _, block in typed_blocks(message):
        for part in (block, *(inner for _, inner in typed_blocks(block))):
            if isinstance(mark := part.get("cache_control"), Mapping):
                yield mark
