"""Whether FOCUS keeps more than others with the same share of tokens, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from . import measures
from .lines import Line, R
from .pairs import FEW, Pair, pairs

_FULL = 0.995
"""A recall from which on there is nothing to gain."""


def verdicts(found: Mapping[str, Sequence[Line[R]]]) -> list[str]:
    """One sentence for each file and FOCUS; what is not above is named, with what can be seen of why."""
    told = []
    for file, lines in found.items():
        every = pairs(lines)
        for focus in dict.fromkeys(pair.focus.name for pair in every):
            own = [pair for pair in every if pair.focus.name == focus]
            above = [pair.name.lower() for pair in own if pair.verdict == "above"]
            parts = [f"above {_listed(above)}"] if above else []
            parts += [_not_above(pair) for pair in own if pair.verdict != "above"]
            told.append(f"{file}: at its share of tokens, {focus} has a recall {'; '.join(parts)}.")
    return told


def _not_above(pair: Pair[R]) -> str:
    assert pair.recall is not None
    how = "below" if pair.verdict == "below" else "not clearly above"
    mean, low, high = (_signed(number) for number in pair.recall)
    told = [f"{mean} points, {low} to {high}", *_reasons(pair)]
    return f"{how} {pair.name.lower()} ({'; '.join(told)})"


def _reasons(pair: Pair[R]) -> Iterator[str]:
    theirs = pair.other.average(measures.recall)
    if theirs is not None and theirs >= _FULL:
        yield "it lost next to nothing"
    if pair.more_tokens >= 0.01:
        yield f"it had {100 * pair.more_tokens:.0f} points more of the tokens"
    if pair.runs < FEW:
        yield f"only {pair.runs} runs need anything there"


def _signed(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−")


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
