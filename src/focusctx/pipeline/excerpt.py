"""A shortened step for people to read: what the agent sees of it, and the words behind every mark."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from ..types import Decision, History, Span
from ..wire import Role, Text, Wire, wire_named
from .outline import NO_MEDIA, Outlines, Parts, Shortener, cut_texts, shortened
from .passages import Passages, is_short


class Stretch(NamedTuple):
    """Consecutive words of the original."""

    text: str
    mark: str = ""
    """What the agent sees in place of the text; "" if it sees the text."""


class Block(NamedTuple):
    """The thought, the action or a result of a step, all of it."""

    name: str
    stretches: tuple[Stretch, ...]


def parts_shown(history: History, decision: Decision) -> Parts | None:
    """Return the parts that an event shows of a span; None if it stays or goes whole."""
    if decision.fate not in ("excerpt", "record"):
        return None
    span = next(span for span in history.spans if span.index == decision.index)
    outlines = history.outlines or Outlines(history.format, len)
    return outlines.of(span).record.union(decision.parts)


def blocks_of(span: Span, format: str, parts: Parts | None) -> list[Block]:
    """Return the texts of a step, divided into what these parts show and what they leave out; None shows all."""
    if parts is None or format == "spans":
        named = (("thought", span.thought), ("action", span.action), ("observation", span.observation))
        return [Block(name, (Stretch(text),)) for name, text in named if text]
    return _Reading(span, wire_named(format), parts).blocks()


@dataclass(slots=True)
class _Reading:
    """Goes through the messages of a shortened step once."""

    span: Span
    wire: Wire
    parts: Parts
    speech: list[Stretch] = field(default_factory=list)
    arguments: list[Block] = field(default_factory=list)
    results: list[tuple[str, tuple[Stretch, ...]]] = field(default_factory=list)
    """The results that are shown, each with the id of its call."""
    gone: dict[str, str] = field(default_factory=dict)
    """The results of calls that are left out, by the ids of the calls."""

    def blocks(self) -> list[Block]:
        shortener = Shortener(self.span, self.wire, self.parts)
        before = 0
        for message in self.span.messages:
            for text, passages in cut_texts(message, self.wire, self.span, every=True):
                own = {number - before for number in self.parts if before < number <= before + passages.count}
                before += passages.count
                self._add(text, _stretches(text, passages, own), shortener.gone)
        spoken = _is_cut(self.speech)
        found = [Block("thought", tuple(self.speech) if spoken else (Stretch(self.span.thought),))]
        if self.span.calls or not spoken:  # an agent that acts in plain text acts in what it says
            found.append(self._action(shortener))
        found += self.arguments
        return [block for block in (*found, *self._observations()) if any(one.text for one in block.stretches)]

    def _add(self, text: Text, stretches: tuple[Stretch, ...], gone: Collection[str]) -> None:
        if text.role is Role.SPEECH:
            self.speech += [Stretch("\n"), *stretches] if self.speech else stretches
        elif text.role is Role.ARGUMENT:
            if _is_cut(stretches):
                self.arguments.append(Block(f"long argument of {self._name(text.call)}", stretches))
        elif text.call in gone:
            self.gone[text.call] = text.text
        else:
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
