"""Whether FOCUS keeps more than others with the same share of tokens, in plain sentences; the table has the numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from focusctx.replay.lines import Line, R

from .pairs import pairs

_SAID = {"above": "above", "no clear difference": "not clearly above", "below": "below"}


def verdicts(lines: Sequence[Line[R]]) -> list[str]:
    """One sentence for each FOCUS."""
    every = pairs(lines)
    told = []
    for focus in dict.fromkeys(pair.focus.name for pair in every):
        others: defaultdict[str, list[str]] = defaultdict(list)
        for pair in every:
            if pair.focus.name == focus:
                others[_SAID.get(pair.verdict, "")].append(pair.name.lower())
        parts = [f"{how} {_listed(others[how])}" for how in _SAID.values() if how in others]
        if not parts:
            told.append(f"There are too few runs for a verdict on {focus}.")
            continue
        if "" in others:
            parts.append(f"with too few runs for a verdict on {_listed(others[''])}")
        told.append(f"At its share of tokens, {focus} has a recall {'; '.join(parts)}.")
    return told


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
