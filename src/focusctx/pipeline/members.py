"""Beyond the paper, set-valued goals: a plan that acts on each member of a set needs to see all members.

A draft that writes "for each contact, add them" often cites the procedure and not the steps that listed the
contacts; with those gone, the agent leaves some out and does not know it. The prompt asks for them. This step checks:
a dropped span on the same matter that lists members named nowhere in what stays comes back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..config import FocusConfig
from ..types import History, Sketch, Span
from .keep import Selection, bring_back

_SET = re.compile(r"\b(?:each|every|all)\b((?:\s+[\w'-]+){1,6})", re.IGNORECASE)
_EMPTY_WORDS = frozenset({
    "all", "also", "and", "any", "are", "been", "each", "every", "for", "from", "has", "have", "her", "his", "its",
    "not", "other", "our", "out", "own", "remaining", "same", "some", "still", "than", "that", "the", "their", "them",
    "then", "there", "these", "they", "this", "those", "was", "were", "which", "who", "will", "with", "you", "your",
})  # fmt: skip
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]{2,}")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+(.+?)\s*$", re.MULTILINE)
_SHORTEST = 3
"""Characters that a name has at least: shorter ones are found in any text."""


def with_members(history: History, selection: Selection, plans: Sequence[Sketch], config: FocusConfig) -> Selection:
    """The selection with the spans that list what a plan goes through one by one."""
    steps = [step.text for plan in plans for step in plan.steps]
    matter = _matter(steps) if config.members else frozenset()
    if not matter:
        return selection
    matter |= _matter([history.goal])
    stays = [history.goal, *(turn.text for turn in history.user_turns)]
    stays += [_text(span) for span in history.spans if span.index in selection.kept]
    named = "\n".join(stays)
    back: list[int] = []
    for span in reversed(history.spans):  # the newest list has the state that holds now
        if span.index in selection.kept or matter.isdisjoint(_stems(f"{span.thought} {span.action}")):
            continue
        if any(not any(name in named for name in names) for names in members(span.observation)):
            back.append(span.index)
            named += "\n" + _text(span)
    return bring_back(selection, back, "lists members of a set that a plan goes through", history, config)


def members(observation: str) -> list[frozenset[str]]:
    """The members of the lists in an observation, each as the names that tell it from the others."""
    try:
        lists = list(_lists(json.loads(observation)))
    except (ValueError, RecursionError):
        lists = [_BULLET.findall(observation)]
    found: list[frozenset[str]] = []
    for entries in lists:
        named = [frozenset(_names(entry)) for entry in entries]
        if len(named) > 1:
            common = frozenset.intersection(*named)
            found += [names - common for names in named if names - common]
    return found


def _lists(value: Any) -> Iterator[list[Any]]:
    """The arrays in a JSON value; one within a member of another belongs to that member."""
    if isinstance(value, list):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _lists(inner)


def _names(entry: Any) -> Iterator[str]:
    if isinstance(entry, dict):
        entry = list(entry.values())
    if isinstance(entry, list):
        for inner in entry:
            yield from _names(inner)
    elif len(name := str(entry)) >= _SHORTEST and not isinstance(entry, bool | None):
        yield name


def _matter(texts: Sequence[str]) -> frozenset[str]:
    """What sets the texts speak of: the words after "each", "every" and "all"."""
    return frozenset(stem for text in texts for phrase in _SET.findall(text) for stem in _stems(phrase))


def _stems(text: str) -> frozenset[str]:
    """The words of a text, names in it taken apart, in the singular."""
    words = (word.lower() for word in _WORD.findall(text))
    return frozenset(word.removesuffix("s") for word in words if word not in _EMPTY_WORDS and len(word) >= _SHORTEST)


def _text(span: Span) -> str:
    return "\n".join((span.thought, span.action, span.observation))
