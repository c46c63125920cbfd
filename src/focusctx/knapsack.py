"""The exact 0/1 knapsack: the spans with the highest total utility that fit a number of tokens."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import NamedTuple

from .errors import ConfigError


def select_under_budget(
    utilities: Mapping[int, float],
    tokens: Mapping[int, int],
    budget: int,
    required: Collection[int] = (),
) -> frozenset[int]:
    """Return the spans with the highest total utility that fit: an exact 0/1 knapsack, not a greedy one.

    Keys are span indices. `required` spans are included even if they alone exceed the budget; the rest share what they
    leave. Ties are broken by fewer tokens, then by newer spans (the set that holds the newest span in which two sets
    differ), so the answer is unique. A span of no utility is kept only if it costs nothing.
    """
    _check(utilities, tokens, required)
    chosen = frozenset(required)
    room = budget - sum(tokens[index] for index in chosen)
    if room < 0:
        return chosen
    optional = [index for index in utilities if index not in chosen]
    free = frozenset(index for index in optional if tokens[index] == 0)
    worth = [index for index in optional if utilities[index] > 0 and 0 < tokens[index] <= room]
    return chosen | free | _knapsack(_items(worth, utilities, tokens), room)


class _Item(NamedTuple):
    span: int
    tokens: int
    utility: int
    bit: int
    """Newer spans have higher bits: of two sets, the one with the larger sum of bits has the newer spans."""


_State = tuple[int, int, int]
"""(tokens, -utility, -bits) of a partial choice: smaller is better in each, and in this order when sorted."""


def _items(indices: Collection[int], utilities: Mapping[int, float], tokens: Mapping[int, int]) -> list[_Item]:
    """Return the spans with utilities as whole numbers, so that sums and ties are exact."""
    shares = {index: _exact(utilities[index]) for index in indices}
    scale = math.lcm(*(share.denominator for share in shares.values()))
    return [
        _Item(index, tokens[index], int(shares[index] * scale), 1 << place)
        for place, index in enumerate(sorted(indices))
    ]


def _exact(utility: float) -> Fraction:
    """Return the fraction k/N behind a float: three times 1/3 must tie with 1. Other floats keep their value."""
    simple = Fraction(utility).limit_denominator(1000)
    return simple if float(simple) == utility else Fraction(utility)


def _knapsack(items: list[_Item], room: int) -> frozenset[int]:
    """Return the best subset, by dynamic programming over the few items that are in doubt.

    Filling by utility per token up to the first item that no longer fits (the break) is optimal except for the room
    left over. Each item moved against that rule loses a known amount, so only choices that lose less than the best one
    found so far are followed; the others cannot win. Of two partial choices, one with no more utility and no fewer
    tokens is dropped. With utilities k/N a handful survive.
    """
    ranked = sorted(items, key=lambda item: (Fraction(-item.utility, item.tokens), -item.span))
    filled, cut = _fill(ranked, room)
    if cut == len(ranked):
        return frozenset(item.span for item in ranked)
    slope = ranked[cut]
    step = math.gcd(*(item.utility for item in ranked))

    def value(state: _State) -> int:
        """Upper bound on what a state can be worth with the room it leaves, in units of 1/slope.tokens."""
        return -state[1] * slope.tokens + (room - state[0]) * slope.utility

    def needed(best: _State) -> int:
        """Value a state needs to tie with the best: its utility at its tokens, or one step more at any."""
        return min(value(best), (step - best[1]) * slope.tokens)

    states = [filled]
    best = _greedy(filled, ranked[cut:], room)
    inside = {item.span for item in ranked[:cut]}
    in_doubt = sorted((abs(i.utility * slope.tokens - i.tokens * slope.utility), i.span, i) for i in ranked)
    for loss, _, item in in_doubt:
        if value(filled) - loss < needed(best):
            break  # moving this item, or any after it, loses more than can still be gained
        states = _undominated(states, _moved(states, item, -1 if item.span in inside else 1))
        best = min([best, *(s for s in states if s[0] <= room)], key=lambda s: (s[1], s[0], s[2]))
        floor = needed(best)
        states = [state for state in states if value(state) >= floor]
    return frozenset(item.span for item in items if -best[2] & item.bit)


def _fill(ranked: list[_Item], room: int) -> tuple[_State, int]:
    """Return the leading items that fit, and the place of the first that does not."""
    state = (0, 0, 0)
    for place, item in enumerate(ranked):
        if state[0] + item.tokens > room:
            return state, place
        state = _add(state, item)
    return state, len(ranked)


def _greedy(state: _State, rest: list[_Item], room: int) -> _State:
    """Return a good choice to compare others with: add every remaining item that still fits, best first."""
    for item in rest:
        if state[0] + item.tokens <= room:
            state = _add(state, item)
    return state


def _add(state: _State, item: _Item, sign: int = 1) -> _State:
    return state[0] + sign * item.tokens, state[1] - sign * item.utility, state[2] - sign * item.bit


def _moved(states: list[_State], item: _Item, sign: int) -> list[_State]:
    return [_add(state, item, sign) for state in states]


def _undominated(left: list[_State], right: list[_State]) -> list[_State]:
    """Merge both lists, without any state that has no more utility than a cheaper one."""
    front: list[_State] = []
    for state in sorted(left + right):
        if not front or state[1] < front[-1][1]:
            front.append(state)
    return front


def _check(utilities: Mapping[int, float], tokens: Mapping[int, int], required: Collection[int]) -> None:
    for index in (*utilities, *required):
        if index not in tokens:
            raise ConfigError(f"span {index} has no token count")
        if tokens[index] < 0:
            raise ConfigError(f"tokens must be 0 or more, got {tokens[index]} for span {index}")
    for index, utility in utilities.items():
        if not 0 <= utility < math.inf:
            raise ConfigError(f"utilities must be 0 or more and finite, got {utility} for span {index}")
