"""The parts of a step: its long texts cut into passages `s_7.1`, `s_7.2`, …, and what stays if none is kept.

A step shown without any passage is a record: what was done, in the call's own words, and the lines that tell how it
ended. Short texts belong to the record. The model's own turn is never altered beside hidden reasoning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from ..types import Message, Span
from ..wire import Role, Text, Wire, wire_named
from ..wire.part import MEDIA_TOKENS, join
from .passages import Passages, cut, uncut

if TYPE_CHECKING:
    from .split import Count

Parts: TypeAlias = frozenset[int]
"""The numbers of the passages that a shortened step shows."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage of a step."""

    number: int
    text: str
    tokens: int
    role: Role
    call: str
    """The id of the call that it belongs to; "" in speech and in text agents' observations."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A step as a record and passages."""

    span: Span
    passages: tuple[Passage, ...]
    """The passages that can be shown: all of them, or what an earlier event left."""
    turn: str
    """The model's own words and calls, as a record shows them."""
    results: str
    """The results, as a record shows them."""
    record_tokens: int
    tokens: int
    """Tokens of the step with all its passages."""

    @property
    def is_turn_whole(self) -> bool:
        """True if a record shows all that the model said and did."""
        return all(passage.role is Role.RESULT for passage in self.passages)

    def tokens_with(self, parts: Collection[int]) -> int:
        """Estimated tokens of the step with these passages; marks make it a little larger or smaller."""
        return self.record_tokens + sum(passage.tokens for passage in self.passages if passage.number in parts)

    def text_of(self, number: int) -> str:
        """Return the text of a passage; of number 0, what a record shows."""
        if number == 0:
            return join([self.turn, self.results])
        return next(passage.text for passage in self.passages if passage.number == number)


class Outlines:
    """The outlines of a history's steps: each is made once, and again when its step has grown.

    `left` holds the steps that an earlier event shortened, with the passages it left.
    """

    def __init__(self, format: str, count: Count, left: Mapping[int, Parts] | None = None) -> None:
        self.format = format
        self.count = count
        self.left = left or {}
        self._known: dict[int, Outline] = {}

    def of(self, span: Span) -> Outline:
        known = self._known.get(span.index)
        if known is None or known.span is not span:
            known = outline(span, self.format, self.count)
            if (parts := self.left.get(span.index)) is not None:
                known = self._as_left(known, parts)
            self._known[span.index] = known
        return known

    def after(self, left: Mapping[int, Parts]) -> Outlines:
        """Return the outlines of what an event left; those of whole steps are shared."""
        later = Outlines(self.format, self.count, left)
        later._known = {index: known for index, known in self._known.items() if index not in left}
        return later

    def tokens(self, span: Span, parts: Parts) -> int:
        """Tokens of a step with these passages, exactly."""
        wire = wire_named(self.format)
        return sum(message_tokens(message, wire, self.count) for message in shortened(span, wire, parts))

    def _as_left(self, whole: Outline, parts: Parts) -> Outline:
        passages = tuple(passage for passage in whole.passages if passage.number in parts)
        tokens = self.tokens(whole.span, parts) if passages else whole.record_tokens
        return replace(whole, passages=passages, tokens=tokens)


def message_tokens(message: Message, wire: Wire, count: Count) -> int:
    """Tokens that a message adds to its history, independent of the messages before it."""
    parts = (part for part in wire.read(message, 0) if not part.static)
    return sum(sum(map(count, part.counted)) + part.extra_tokens for part in parts)


def outline(span: Span, format: str, count: Count) -> Outline:
    """Return the outline of a step; one without messages is its own record."""
    undivided = Outline(span, (), join([span.thought, span.action]), span.observation, span.tokens, span.tokens)
    if format == "spans":
        return undivided
    wire = wire_named(format)
    passages: list[Passage] = []
    for message in span.messages:
        for text, cut_text in _cut_texts(message, wire, span):
            extra = text.media * MEDIA_TOKENS
            passages += (
                Passage(len(passages) + 1, words, count(words) + extra, text.role, text.call)
                for _, words in cut_text.numbered()
            )
    if not passages:
        return undivided
    record = shortened(span, wire, frozenset())
    read = [part for message in record for part in wire.read(message, 0)]
    return Outline(
        span,
        tuple(passages),
        join([text for part in read for text in (part.thought, part.action)]),
        join([part.text for part in read]),
        sum(message_tokens(message, wire, count) for message in record),
        span.tokens,
    )


def shortened(span: Span, wire: Wire, parts: Collection[int]) -> tuple[Message, ...]:
    """Return the step's messages with only these passages, and what a record shows."""
    shorten = Shortener(span, wire, parts)
    return tuple(map(shorten.message, span.messages))


class Shortener:
    """Shortens the messages of one step, in order: its passages are numbered through all of them."""

    def __init__(self, span: Span, wire: Wire, parts: Collection[int]) -> None:
        self._span = span
        self._wire = wire
        self._parts = parts
        self._before = 0

    def message(self, message: Message, blocks: Collection[int] | None = None) -> Message:
        """Return the message with the wanted passages only; with `blocks`, shorten these content blocks alone."""
        changed: dict[int, str] = {}
        for place, (text, cut_text) in enumerate(_cut_texts(message, self._wire, self._span, every=True)):
            if blocks is not None and text.block is not None and text.block not in blocks:
                continue
            own = [number for number in range(1, cut_text.count + 1) if self._before + number in self._parts]
            self._before += cut_text.count
            if len(own) < cut_text.count:
                changed[place] = cut_text.shown(own) + (_NO_MEDIA if text.media else "")
        return self._wire.with_texts(message, changed) if changed else message


_NO_MEDIA = "[… image or file left out]"


def _cut_texts(message: Message, wire: Wire, span: Span, *, every: bool = False) -> Iterator[tuple[Text, Passages]]:
    """Yield the texts of a message with their passages: those that can be shown in part, or `every` one."""
    for text in wire.texts(message):
        if span.reasons and text.role is not Role.RESULT:
            passages = uncut(text.text, 0)
        elif text.media:  # images go with all of their text, since a shortened result is plain text
            passages = uncut(text.text, 1)
        else:
            passages = cut(text.text, speech=text.role is Role.SPEECH)
        if every or passages.count:
            yield text, passages
