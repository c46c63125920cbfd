"""The two line forms as a grammar, so that what a small model writes can always be read.

A plan is one to eight step lines and, where rescues are asked for, one rescue line. Ids are those of spans that
exist, in rising order, so that none comes twice. One description serves both kinds of model: `gbnf` writes it for
llama.cpp, and `advance` walks it letter by letter, for the token mask of a model in this process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise

from ..types import Prompt

MOST_STEPS = 8
MOST_LETTERS = 240
"""In the words of one line: a model that does not come to the point is cut short."""

TEXT, IDS = "text", "ids"
_STEP: tuple[str, ...] = ("Step: ", TEXT, "| Depends on: [", IDS, "]\n")
_RESCUE: tuple[str, ...] = ("Rescued Spans: [", IDS, "] | Reason: ", TEXT, "\n")
"""What is not words or ids stands there as it is."""

FORBIDDEN = re.compile(r"[|:<\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Not among words: what ends a line, and what the parser could take for a list or for a model's thoughts."""
_LETTER = r"[^|:<\x00-\x1F\x7F-\x9F\u2028\u2029]"


@dataclass(frozen=True, slots=True)
class Place:
    """How far a plan has been written."""

    line: tuple[str, ...] = ()
    """The form of the line that is being written, or was last."""
    part: int = 0
    """Which part of it; one behind the last where the line is whole."""
    written: str = ""
    """Of a fixed part, or of an id with the comma before it."""
    last: int = 0
    """The last whole id of the list, 0 for none."""
    letters: int = 0
    """Of the words."""
    steps: int = 0
    """Step lines begun."""

    @property
    def between(self) -> bool:
        return self.part == len(self.line)

    @property
    def kind(self) -> str:
        """`text`, `ids`, or the fixed text that is due; empty between lines."""
        return "" if self.between else self.line[self.part]

    @property
    def long(self) -> bool:
        """The words must come to an end. Tokens are not cut for it: the one that passes the limit is the last."""
        return self.letters >= MOST_LETTERS

    @property
    def key(self) -> tuple[object, ...]:
        """The same for places after which the same may follow."""
        words, steps = (self.letters > 0, self.long), (self.steps > 0, self.steps >= MOST_STEPS)
        return (self.line, self.part, self.written, self.last, words, steps)


@dataclass(frozen=True, slots=True)
class PlanGrammar:
    """The plans that can be written about the spans with these indices."""

    spans: tuple[int, ...]
    rescues: bool

    @classmethod
    def of(cls, prompt: Prompt) -> PlanGrammar:
        """What fits the history behind a prompt, with rescues if it asks for them."""
        return cls(tuple(span.index for span in prompt.history.spans), "Rescued Spans:" in str(prompt))

    def may_end(self, place: Place) -> bool:
        return place.between and place.line == (_RESCUE if self.rescues else _STEP)

    def next_letters(self, place: Place) -> set[str] | None:
        """What may follow, or None within words, where almost everything may."""
        if place.between:
            return {line[0][0] for line in self._lines(place)}
        if place.kind == TEXT:
            return None
        if place.kind == IDS:
            following = {option[len(place.written)] for option in self._ids(place) if option != place.written}
            whole = self._whole_id(place)
            more = {","} if whole and whole < self.spans[-1] else set()
            return following | more | ({"]"} if whole or not place.written else set())
        return {place.kind[len(place.written)]}

    def advance(self, place: Place, letter: str) -> Place | None:
        """The place after one more letter, or None where it does not fit."""
        if place.kind == TEXT:
            if place.letters and letter == place.line[place.part + 1][0]:
                return self._begin(place, letter)
            return None if FORBIDDEN.match(letter) else replace(place, letters=place.letters + 1)
        if letter not in (self.next_letters(place) or ()):
            return None
        if place.between:
            line = next(line for line in self._lines(place) if line[0][0] == letter)
            return Place(line, written=letter, steps=place.steps + (line == _STEP))
        if place.kind == IDS:
            if letter == "]":
                return self._begin(place, letter)
            whole = self._whole_id(place) if letter == "," else 0
            return replace(place, written="," if whole else place.written + letter, last=whole or place.last)
        if place.written + letter == place.kind:
            return Place(place.line, place.part + 1, steps=place.steps)
        return replace(place, written=place.written + letter)

    def _begin(self, place: Place, letter: str) -> Place:
        """The fixed part that follows words or ids, with its first letter."""
        following = place.line[place.part + 1]
        if following == letter:
            return Place(place.line, place.part + 2, steps=place.steps)
        return Place(place.line, place.part + 1, letter, steps=place.steps)

    def _lines(self, place: Place) -> list[tuple[str, ...]]:
        """The forms that the next line may have."""
        if place.line == _RESCUE:
            return []
        return [_STEP] * (place.steps < MOST_STEPS) + [_RESCUE] * (self.rescues and place.steps > 0)

    def _ids(self, place: Place) -> list[str]:
        """The ids that what is written of one may become, with the comma before them."""
        comma = ", " if place.last else ""
        options = (f"{comma}s_{span}" for span in self.spans if span > place.last)
        return [option for option in options if option.startswith(place.written)]

    def _whole_id(self, place: Place) -> int:
        """The id, if it is a whole one, else 0."""
        return int(place.written.rpartition("_")[2]) if place.written in self._ids(place) else 0

    def gbnf(self) -> str:
        """The grammar as llama.cpp reads it."""
        rules = [
            f"root ::= step{{1,{MOST_STEPS}}}" + (" rescue" if self.rescues else ""),
            f"step ::= {_parts(_STEP)}",
            f"rescue ::= {_parts(_RESCUE)}" if self.rescues else "",
            f"text ::= {_LETTER}{{1,{MOST_LETTERS}}}",
            "ids ::= " + " | ".join(['""', *(f'"s_{span}" after-{span}' for span in self.spans)]),
        ]
        for span, following in pairwise((*self.spans, 0)):
            more = f'(", s_{following}")? after-{following}' if following else '""'
            rules.append(f"after-{span} ::= {more}")
        return "\n".join(rule for rule in rules if rule) + "\n"


def _parts(line: tuple[str, ...]) -> str:
    return " ".join(part if part in (TEXT, IDS) else '"' + part.replace("\n", "\\n") + '"' for part in line)
