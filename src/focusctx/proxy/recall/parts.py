"""The parts of a round in any format: thoughts, calls, and the rest; and which of them may be sent without others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .loose import Json

Kind: TypeAlias = Literal["said", "thought", "call", "recall"]


@dataclass(frozen=True, slots=True)
class Part:
    """A content block (Anthropic), an output item (Responses), or a call, all thoughts or all text (chat)."""

    index: int
    kind: Kind
    value: Json


def keep(parts: Iterable[Part], wanted: Callable[[Part], bool], *, bound: bool) -> list[Part]:
    """Return the wanted parts, each with the thoughts before it.

    Providers refuse thoughts without the part they led to, and thoughts side by side that were apart before. Thoughts
    that led to several calls are kept if one of the calls is, unless they are `bound` to the first call by its id.
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
    """Return the usage of both: numbers are added up, other values are those of `other`, if it has them."""
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
