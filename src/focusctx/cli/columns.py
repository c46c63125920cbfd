"""Wide tables on narrow terminals: the columns are printed in parts instead of being cut off."""

from __future__ import annotations

from collections.abc import Sequence

_BETWEEN = 2
"""Characters between two columns."""
_NAMES = 22
"""Characters after which names are folded, if there is no more room."""


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the characters that each column takes, with what separates it from the next. The head is a row, too.

    The first column holds names, which may be folded when they are long.
    """
    first, *others = [max(len(row[place]) for row in rows) + _BETWEEN for place in range(len(rows[0]))]
    return [min(first, _NAMES), *others]


def parts_that_fit(widths: Sequence[int], room: int) -> list[list[int]]:
    """Return the places of the columns of each part; every part begins with the first column, the rows' names."""
    parts: list[list[int]] = [[0]]
    for place, width in enumerate(widths[1:], 1):
        if len(parts[-1]) > 1 and sum(widths[one] for one in parts[-1]) + width > room:
            parts.append([0])
        parts[-1].append(place)
    return parts
