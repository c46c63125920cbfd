"""A scripted draft for the office: reads the history as the agent does and cites what the chores that are left need.

What a plan rests on is cited in its steps; what went wrong before is for the defensive check.
With `misses` each citation is left out that often, by chance, as a weaker model's would be.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Iterator

from focusctx.types import History, Prompt, Reply, Usage

from ...sizes import count
from .clerk import Key, Knowledge, read

_APPS = {
    "Pay every": ("files", "mail", "contacts", "pay"),
    "Pay everyone": ("mail", "contacts", "pay"),
    "Pay the": ("files", "contacts", "pay"),
    "Gather": ("files", "mail"),
    "Add": ("files",),
    "Follow": ("files",),
    "Plan": ("files", "mail", "calendar"),
    "Write a mail": ("files", "mail", "contacts"),
    "Write the": ("files",),
    "Read": ("files", "mail"),
    "Ask": (),
}
"""Apps that a chore needs, by how its words begin."""

_RULES = {"pay": "payments", "contacts": "mails", "calendar": "meetings"}
_RISKS = frozenset({"failed", "tried", "locked"})
"""Kinds of facts that no step rests on, and that keep the agent from failing in the same way again."""


class PlannerDraft:
    def __init__(self, misses: float = 0.0) -> None:
        self.name = f"office-planner-{misses:g}" if misses else "office-planner"
        self._misses = misses

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        for number in range(n):
            chance = random.Random(f"{prompt.seed} {number} {prompt.history.newest}")
            text = "\n".join(self._lines(prompt.history, chance))
            yield Reply(text, Usage(1, count(str(prompt)), count(text)))

    def _lines(self, history: History, chance: random.Random) -> Iterator[str]:
        # The goal and the messages of all spans, and the span that each belongs to.
        held = [(message, span.index) for span in history.spans for message in span.messages]
        owners = [0, *(index for _, index in held)]
        known = read([{"role": "user", "content": history.goal}, *(message for message, _ in held)])
        chores = sorted((int(key[0]), words) for key, words in known.under("chore"))
        risky: set[int] = set()
        for number, words in chores:
            if known.has("done", str(number)):
                continue
            steps: set[int] = set()
            for key in _needs(known, words):
                span = _stated_in(owners, known, key)
                if span and chance.random() >= self._misses:
                    (risky if key[0] in _RISKS else steps).add(span)
            yield f"Step: chore {number} | Depends on: {_cited(steps)}"
        yield f"Rescued Spans: {_cited(risky)} | Reason: tells what failed before"


def _needs(known: Knowledge, words: str) -> Iterator[Key]:
    """The facts in sight that the chore is about, and those that any chore of its kind needs."""
    match = re.search(r"'(\w+)'|/receipts/(\w+)", words)
    topic = (match[1] or match[2]) if match else words
    about = [key for key in known if any(topic in part for part in key)]
    yield from about
    names = _names(known, about, topic)
    yield from (key for key in known if key[0] in ("handle", "address") and key[1] in names)
    apps = next((apps for begin, apps in _APPS.items() if words.startswith(f"{begin} ")), ())
    for app in apps:
        if known.has("token", app):
            yield ("token", app)
        else:
            yield from (key for key in known if key[0] in ("passwords", "failed", "tried") and key[1] == app)
        if app in _RULES:
            yield ("rule", _RULES[app])
    yield from (key for key in known if key[0] == "done")


def _names(known: Knowledge, about: list[Key], topic: str) -> set[str]:
    """The people a chore has to do with, as far as is known by now."""
    names = {f"{topic} Works"}
    for key in about:
        value = known.get(*key)
        if key[0] in ("Members", "Guests", "Team", "Readers"):
            names.update(value)
        elif key[0] == "listed":
            names.add(value)
    return names


def _stated_in(owners: list[int], known: Knowledge, key: Key) -> int:
    """The newest span that states it; 0 when none does, or the user's own words do."""
    if not known.has(*key):
        return 0
    spans = {owners[place] for place in known.used[-1].places}
    return 0 if 0 in spans else max(spans)


def _cited(spans: set[int]) -> str:
    return f"[{', '.join(f's_{span}' for span in sorted(spans))}]" if spans else "none"
