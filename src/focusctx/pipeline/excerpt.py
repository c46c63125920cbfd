"""A shortened step for people to read: what the agent sees of it, and the words behind every mark."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from ..types import Result, Span
from ..wire import Role, Text, Wire, wire_named
from .outline import NO_MEDIA, Outlines, Parts, Shortener, StepTexts, joint_records, shortened
from .passages import Passages, is_short


class Stretch(NamedTuple):
    """Consecutive words of the original."""

    text: str
    mark: str = ""
    """The mark that the agent sees in place of the text, or ""; one without a text tells of other steps."""


class Block(NamedTuple):
    """The thought, the action or a result of a step, all of it."""

    name: str
    stretches: tuple[Stretch, ...]


def shown_of(result: Result, index: int) -> list[Block] | None:
    """Return the texts of a span as an event shows them; None if the event has no such span."""
    history = result.history
    span = next((span for span in history.spans if span.index == index), None) if history else None
    if history is None or span is None:
        return None
    fates = {decision.index: decision.fate for decision in result.decisions}
    if fates.get(index) not in ("excerpt", "record"):
        return blocks_of(span, history.format, None)
    outlines = history.outlines or Outlines(history.format, len)
    shown = {
        one.index: outlines.of(one).record.union(result.shortened[one.index])
        for one in history.spans
        if one.index in result.shortened
    }
    lines = joint_records(history.every, result.kept, shown, outlines)
    return blocks_of(span, history.format, shown[index], lines.get(index, ""))


def blocks_of(span: Span, format: str, parts: Parts | None, ending: str = "") -> list[Block]:
    """Return the texts of a step, divided into what these parts show and what they leave out; None shows all.

    `ending` is the line behind the last result that tells of steps that are gone.
    """
    if parts is None or format == "spans":
        named = (("thought", span.thought), ("action", span.action), ("observation", span.observation))
        return [Block(name, (Stretch(text),)) for name, text in named if text]
    return _Reading(span, wire_named(format), parts, ending).blocks()


@dataclass(slots=True)
class _Reading:
    """Goes through the messages of a shortened step once."""

    span: Span
    wire: Wire
    parts: Parts
    ending: str = ""
    speech: list[Stretch] = field(default_factory=list)
    arguments: list[Block] = field(default_factory=list)
    results: list[tuple[str, tuple[Stretch, ...]]] = field(default_factory=list)
    """The results that are shown, each with the id of its call."""
    last: int | None = None
    """The place of the last result that stays as text."""
    gone: dict[str, str] = field(default_factory=dict)
    """The results of calls that are left out, by the ids of the calls."""

    def blocks(self) -> list[Block]:
        texts = StepTexts(self.span, self.wire.name)
        shortener = Shortener(self.span, self.wire, self.parts, texts=texts)
        before = 0
        for message in self.span.messages:
            for text, passages in texts.of(message):
                own = {number - before for number in self.parts if before < number <= before + passages.count}
                before += passages.count
                self._add(text, _stretches(text, passages, own), shortener.gone)
        if self.ending and self.last is not None:
            call, stretches = self.results[self.last]
            self.results[self.last] = call, (*stretches, Stretch("", f"\n{self.ending}"))
        spoken = _is_cut(self.speech)
        found = [Block("thought", tuple(self.speech) if spoken else (Stretch(self.span.thought),))]
        if self.span.calls or not spoken:  # an agent that acts in plain text acts in what it says
            found.append(self._action(shortener))
        found += self.arguments
        return [
            block for block in (*found, *self._observations()) if any(one.text or one.mark for one in block.stretches)
        ]

    def _add(self, text: Text, stretches: tuple[Stretch, ...], gone: Collection[str]) -> None:
        if text.role is Role.SPEECH:
            self.speech += [Stretch("\n"), *stretches] if self.speech else stretches
        elif text.role is Role.ARGUMENT:
            if _is_cut(stretches):
                self.arguments.append(Block(f"long argument of {self._name(text.call)}", stretches))
        elif text.call in gone:
            self.gone[text.call] = text.text
        else:
            if not text.media:
                self.last = len(self.results)
            self.results.append((text.call, stretches))

    def _action(self, shortener: Shortener) -> Block:
        if not self.arguments and not shortener.gone:
            return Block("action", (Stretch(self.span.action),))
        read = (part for message in shortened(self.span, self.wire, self.parts) for part in self.wire.read(message, 0))
        seen = Stretch("\n".join(made for part in read for made in part.made))
        if not shortener.gone:
            return Block("action", (seen,))
        calls = (call for call in self.span.calls if call.id in shortener.gone)
        words = "\n\n".join(f"{call.text}\n{self.gone.get(call.id, '')}".rstrip() for call in calls)
        return Block("action", (Stretch(f"{seen.text}\n"), Stretch(words, shortener.mark())))

    def _observations(self) -> list[Block]:
        if not self.gone and not any(_is_cut(stretches) for _, stretches in self.results):
            return [Block("observation", (Stretch(self.span.observation),))]
        if len(self.results) == 1:
            return [Block("observation", self.results[0][1])]
        return [
            Block(f"observation {number}, of {self._name(call)}", stretches)
            for number, (call, stretches) in enumerate(self.results, 1)
        ]

    def _name(self, id: str) -> str:
        return next((call.name for call in self.span.calls if call.id == id), "a call")


def _stretches(text: Text, passages: Passages, shown: Collection[int]) -> tuple[Stretch, ...]:
    if is_short(text.text) and not text.media:
        return (Stretch(text.text),)
    found = tuple(Stretch(words, mark) for words, mark in passages.stretches(shown) if words)
    if text.media and len(shown) < passages.count:
        return *found, Stretch("(an image or a file)", NO_MEDIA)
    return found


def _is_cut(stretches: Collection[Stretch]) -> bool:
    return any(stretch.mark for stretch in stretches)
