"""The state of one office: what is in it, and what was done in it. Nothing here knows the agent."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, dataclass, field

APPS = ("mail", "files", "contacts", "pay", "calendar")
"""Apps with an account. Notes and the desk are open."""

MOST_WRONG = 3
"""The wrong password with this number locks the account."""

FEE = "5.00"


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
