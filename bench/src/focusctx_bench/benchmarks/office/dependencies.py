"""The true dependencies of each step of a run: the earlier steps that stated the facts its decision used.

Found by asking the scripted agent again, over the whole history, which facts it looks at: exact for its own runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from focusctx.types import Message

from .clerk import Key, decide_from, read


@dataclass(frozen=True, slots=True)
class Need:
    """A fact that a step used and the earlier steps that state it: one of them is enough."""

    fact: Key
    steps: frozenset[int]


def dependencies(messages: Sequence[Message]) -> list[tuple[Need, ...]]:
    """Return, for each step of a whole run, in order, its needs. Steps are numbered from 1, as spans are.

    Facts that the user's own words state are left out: no method drops those.
    """
    owners = _owners(messages)
    turns = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    return [_needs(messages[:turn], owners) for turn in turns]


def lost(needs: Sequence[Sequence[Need]], at: int, dropped: Collection[int]) -> list[tuple[int, Key]]:
    """Return the facts, each with its step, that are gone for good when these steps are dropped before step `at`.

    A fact that is stated again between the drop and its use does not count.
    """
    gone = frozenset(dropped)
    return [
        (number, need.fact)
        for number, used in enumerate(needs, 1)
        if number >= at
        for need in used
        if need.steps <= gone
    ]


def needed(needs: Sequence[Sequence[Need]], at: int) -> list[Need]:
    """Return the facts that steps from `at` on use of earlier ones, each once; not what they find out themselves."""
    found: dict[Key, Need] = {}
    for used in needs[at - 1 :]:
        for need in used:
            if any(step < at for step in need.steps):
                early = frozenset(step for step in need.steps if step < at)
                found.setdefault(need.fact, Need(need.fact, early))
    return list(found.values())


def _owners(messages: Sequence[Message]) -> list[int]:
    """Return for each message the number of its step, 0 for the opening."""
    owners, step = [], 0
    for message in messages:
        step += message["role"] == "assistant"
        owners.append(step)
    return owners


def _needs(messages: Sequence[Message], owners: Sequence[int]) -> tuple[Need, ...]:
    known = read(messages)
    decide_from(known)
    found = {used.key: frozenset(owners[place] for place in used.places) for used in known.used}
    return tuple(Need(key, steps) for key, steps in found.items() if 0 not in steps)
