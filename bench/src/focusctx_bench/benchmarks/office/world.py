"""The state of one office: what is in it, and what was done in it; and how a new one is filled. Nothing here knows the
agent.

Everything in a new world comes from one random stream. Text that means nothing is the same for the same key, so a
world is the same whenever it is made.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime, timedelta

APPS = ("mail", "files", "contacts", "pay", "calendar")
"""Apps with an account. Notes and the desk are open."""

MOST_WRONG = 3
"""The wrong password with this number locks the account."""

FEE = "5.00"
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    address: str
    handle: str
    """Address of payments."""
    closed: str = ""
    """An older handle, which the contacts name as closed."""


@dataclass(frozen=True, slots=True)
class Mail:
    number: int
    sender: str
    about: str
    date: str
    text: str


@dataclass(frozen=True, slots=True)
class Payment:
    to: str
    amount: str
    note: str


@dataclass(frozen=True, slots=True)
class Sent:
    to: str
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class Meeting:
    day: str
    time: str
    title: str


@dataclass(slots=True)
class Effects:
    """Changes for good. Payments, mails and meetings cannot be taken back; of a file the last version counts."""

    payments: Counter[Payment] = field(default_factory=Counter)
    sent: Counter[Sent] = field(default_factory=Counter)
    meetings: Counter[Meeting] = field(default_factory=Counter)
    written: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    passwords: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    mails: list[Mail] = field(default_factory=list)
    outbox: dict[str, list[str]] = field(default_factory=dict)
    """Addresses that were written to before the task began, by subject."""
    files: dict[str, str] = field(default_factory=dict)
    people: dict[str, Person] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)
    """Approval codes by purpose."""

    issued: set[str] = field(default_factory=set)
    wrong: Counter[str] = field(default_factory=Counter)
    """Wrong passwords given, by app."""
    bounced: Counter[str] = field(default_factory=Counter)
    """Fees paid for payments to closed handles, by handle."""
    done: Effects = field(default_factory=Effects)
    wanted: Effects = field(default_factory=Effects)
    """The changes that the user asked for, exactly."""

    def complaints(self) -> list[str]:
        """Return everything that is not as the user wanted it."""
        found = [f"account locked: {app}" for app, wrong in self.wrong.items() if wrong >= MOST_WRONG]
        found += [f"fee paid {fees} times for {handle}" for handle, fees in self.bounced.items()]
        for kind in ("payments", "sent", "meetings"):
            done: Counter[Payment | Sent | Meeting] = getattr(self.done, kind)
            wanted: Counter[Payment | Sent | Meeting] = getattr(self.wanted, kind)
            found += [f"{kind}, missing: {' | '.join(astuple(one))}" for one in (wanted - done).elements()]
            found += [f"{kind}, not wanted: {' | '.join(astuple(one))}" for one in (done - wanted).elements()]
        for path in sorted(self.wanted.written.keys() | self.done.written.keys()):
            if self.wanted.written.get(path) != self.done.written.get(path):
                found.append(f"file not as wanted: {path}")
        return found


class Builder:
    """Puts things into a new world: people, mails, files, passwords, rules."""

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


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST = _words(
    "Ada Ben Clara Dov Edith Farid Greta Hugo Iris Jonas Kaya Liam Mona Nils Olga Pablo Quinn Rosa Sven Tara Umar "
    "Vera Wanda Xenia Yusuf Zoe"
)
LAST = _words(
    "Abbott Brook Cole Dahl Ekdal Fisk Grant Holm Ivers Joyce Kern Lund Marsh Nagel Ostrow Penn Quist Rowe Stern "
    "Thorne Ulrich Voss Wick Young Zeller"
)
TOPICS = _words(
    "cabin picnic garden regatta concert workshop reunion marathon harvest gallery seminar festival bakery orchard "
    "lantern quartet archive harbour"
)
FIRMS = _words("Alder Birch Cedar Dogwood Elm Fir Ginkgo Hazel")

_NOUNS = _words(
    "train window ladder kettle meadow bridge letter season engine corner basket ticket winter market pencil "
    "river carpet signal garage morning cousin blanket island planet"
)
_VERBS = _words("passes finds leaves carries follows meets turns keeps opens misses paints answers")
_ADJECTIVES = _words("old quiet green early heavy narrow bright common distant plain late warm")


def prose(key: str, words: int) -> str:
    """Return sentences of about that many words."""
    chance = random.Random(f"prose {key} {words}")
    said: list[str] = []
    while len(said) < words:
        sentence = (
            f"The {chance.choice(_ADJECTIVES)} {chance.choice(_NOUNS)} {chance.choice(_VERBS)} "
            f"the {chance.choice(_ADJECTIVES)} {chance.choice(_NOUNS)}."
        )
        said += sentence.split()
    return " ".join(said)


def around(key: str, fact: str, words: int) -> str:
    """Return the fact on a line of its own, with prose before and behind it."""
    return f"{prose(f'before {key}', words // 2)}\n{fact}\n{prose(f'behind {key}', words // 2)}"


def banner(app: str, key: str) -> str:
    return f"Welcome to {app}. {prose(f'banner {app} {key}', 70)}"


def token(app: str, key: str) -> str:
    return f"{app[:2].upper()}-{random.Random(f'token {app} {key}').getrandbits(40):010x}"
