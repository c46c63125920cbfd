"""What a round consists of, in any format: thoughts, calls, and the rest; and which of them may go without others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .loose import Json

Kind: TypeAlias = Literal["said", "thought", "call", "recall"]


@dataclass(frozen=True, slots=True)
class Part:
    """A content block, an output item, or (chat) a call or all that was said."""

    index: int
    kind: Kind
    value: Json


def keep(parts: Iterable[Part], wanted: Callable[[Part], bool], *, bound: bool) -> list[Part]:
    """The wanted parts, each with the thoughts before it.

    Thoughts without what they led to are refused by providers, and so are thoughts side by side that were apart.
    Thoughts that led to several calls stay if one of the calls does, unless they are `bound` to the first by its id.
    """
    kept: list[Part] = []
    thoughts: list[Part] = []
    passed_over = False
    for part in parts:
        if part.kind == "thought":
            if passed_over:
                thoughts = []
            thoughts.append(part)
            passed_over = False
        elif wanted(part):
            kept += [*thoughts, part]
            thoughts, passed_over = [], False
        else:
            thoughts = [] if bound else thoughts
            passed_over = True
    return kept


def add(one: Json, other: Json) -> Json:
    """The usage of both: numbers are added up, the rest is the latter's."""
    total = {**one, **other}
    for key in one.keys() & other.keys():
        a, b = one[key], other[key]
        if isinstance(a, dict) and isinstance(b, dict):
            total[key] = add(a, b)
        elif _is_number(a) and _is_number(b):
            total[key] = a + b
        elif b is None:
            total[key] = a
    return total


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
