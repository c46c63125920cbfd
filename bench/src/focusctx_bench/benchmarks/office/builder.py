"""Puts things into a new world: people, mails, files, passwords, rules. Everything comes from one random stream."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

from .filler import DAYS, FIRMS, FIRST, LAST, TOPICS, around
from .world import APPS, Mail, Person, World


class Builder:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.world = World()
        self._topics = iter(chance.sample(TOPICS, len(TOPICS)))
        self._firms = iter(chance.sample(FIRMS, len(FIRMS)))
        self._numbers = chance.randrange(10, 900)
        self._clock = datetime(2026, 3, chance.randrange(1, 9), 8, 0)
        self.suffix = f"#{chance.randrange(1000, 10_000)}"
        self.closing = f"Yours, {chance.choice(LAST)} {chance.randrange(10, 100)}"
        self.blocked, self.instead = chance.sample(DAYS, 2)
        self._passwords()
        self._rules()
        for _ in range(14):
            self.person()

    def topic(self) -> str:
        return next(self._topics)

    def firm(self) -> str:
        return next(self._firms)

    def amount(self) -> str:
        return f"{self.chance.randrange(400, 9900) / 100:.2f}"

    def person(self, name: str = "") -> Person:
        """Add a person; some have an older pay handle that was closed."""
        while not name or name in self.world.people:
            name = f"{self.chance.choice(FIRST)} {self.chance.choice(LAST)}"
        stem = name.lower().replace(" ", "-")
        handle, older = (f"@{stem}-{number}" for number in self.chance.sample(range(10, 100), 2))
        person = Person(name, f"{stem}@post.example", handle, older if self.chance.random() < 0.4 else "")
        self.world.people[name] = person
        return person

    def people(self, count: int) -> list[Person]:
        return self.chance.sample(list(self.world.people.values()), count)

    def mails(self, about: str, first: Sequence[tuple[Person, str]], later: Sequence[tuple[Person, str]] = ()) -> None:
        """Add mails that each state one fact; the later ones come after all the others.

        Ids and dates grow together: the newest mail has the highest id, the latest date, and the last place in lists.
        """
        for person, fact in [*self._shuffled(first), *self._shuffled(later)]:
            self._numbers += self.chance.randrange(1, 9)
            key = f"{about} {self._numbers}"
            self._clock += timedelta(minutes=self.chance.randrange(20, 600))
            date = f"{self._clock.day} {self._clock:%B, %H:%M}"
            words = self.chance.randrange(60, 140)
            self.world.mails.append(Mail(self._numbers, person.name, about, date, around(key, fact, words)))

    def file(self, path: str, fact: str, words: int = 80) -> None:
        self.world.files[path] = around(path, fact, words)

    def _shuffled(self, facts: Sequence[tuple[Person, str]]) -> list[tuple[Person, str]]:
        return self.chance.sample(list(facts), len(facts))

    def _passwords(self) -> None:
        lines = []
        for app in APPS:
            count = self.chance.choice((1, 1, 2, 3))
            stem = self.chance.choice(LAST)
            candidates = [f"{stem}-{number}" for number in self.chance.sample(range(100, 1000), count)]
            self.world.passwords[app] = self.chance.choice(candidates)
            doubt = "" if count == 1 else " (one of them is right)"
            lines.append(f"Passwords for {app}: {' or '.join(candidates)}{doubt}")
        self.world.notes["passwords"] = around("passwords", "\n".join(lines), 60)

    def _rules(self) -> None:
        rules = (
            f"Rule for payments: end every note with {self.suffix} after a blank.\n"
            f"Rule for mails: end every mail with '{self.closing}' after a blank.\n"
            f"Rule for meetings: nothing on {self.blocked}, take {self.instead} instead."
        )
        self.world.notes["house rules"] = around("rules", rules, 60)
