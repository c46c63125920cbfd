"""One more rule for a hard task: read early, in a note, and needed in the last chores. See docs/office.md.

The rule asks for something that the chores do not mention, so an agent that has lost it breaks it without noticing.
It stands in a note of its own, which the task says to read first, or in passing in the note with the passwords.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

from .builder import Builder
from .filler import DAYS, LAST, around
from .world import Meeting, Payment, World

Place = Literal["policy", "passing"]
Outcome = Literal["kept", "broken", "not reached"]
PLACES: tuple[Place, ...] = ("policy", "passing")
NOTES: dict[Place, str] = {"policy": "policy", "passing": "passwords"}
"""Titles of the notes that hold the rule."""
READ_FIRST = "Read the note 'policy' before anything else."
REMINDER = "What my notes ask for holds until the last chore."


@dataclass(frozen=True, slots=True)
class Rule:
    kind: str
    """Kind of the deed that the rule is about: payment, file or meeting."""
    place: Place
    text: str
    value: str
    """The words of the rule that nobody can guess."""
    deed: Payment | str
    """The deed that the rule is about, as the chores alone ask for it: the invoice's payment, or a file's path."""
    wanted: Payment | str | Meeting
    """Deed as the rule wants it, or what the rule adds to it."""

    def outcome(self, world: World) -> Outcome:
        """Return whether the rule was kept. It is not reached if the deed it is about was never done."""
        if isinstance(self.deed, str):
            written = world.done.written.get(self.deed)
            if written is None:
                return "not reached"
            return "kept" if written == self.wanted else "broken"
        paid = [payment for payment in world.done.payments if payment.to == self.deed.to]
        if not paid:
            return "not reached"
        if isinstance(self.wanted, Meeting):
            return "kept" if self.wanted in world.done.meetings else "broken"
        return "kept" if all(payment.note.startswith(f"{self.value} ") for payment in paid) else "broken"


def plant(builder: Builder, seed: int, number: int) -> Rule:
    """Put a rule into the notes, and change what is wanted. The rest of the world stays as it is without a rule.

    Kinds and places take turns, so that any six hard tasks in a row have each kind in each place.
    """
    chance = random.Random(f"office rule {seed} {number}")
    turn = number // 3  # every third task is hard
    place = PLACES[turn % len(PLACES)]
    make = (_payment, _file, _meeting)[turn // len(PLACES) % 3]
    rule = make(builder, chance, place)
    notes = builder.world.notes
    if place == "policy":
        notes["policy"] = around("policy", rule.text, 60)
    else:
        notes["passwords"] = f"{notes['passwords']} {rule.text}"
    return rule


def _payment(builder: Builder, chance: random.Random, place: Place) -> Rule:
    paid, value = _invoice(builder), f"{chance.choice('FGHK')}X-{chance.randrange(100, 1000)}"
    wanted = replace(paid, note=f"{value} {paid.note}")
    payments = builder.world.wanted.payments
    del payments[paid]
    payments[wanted] += 1
    text = f"The note of a payment to a firm begins with {value} and a blank."
    return Rule("payment", place, text, value, paid, wanted)


def _file(builder: Builder, chance: random.Random, place: Place) -> Rule:
    written = builder.world.wanted.written
    path = next(path for path in written if path.endswith("-approval.txt"))
    value = f"Filed by {chance.choice(LAST)} {chance.randrange(100, 1000)}"
    written[path] += f"\n{value}"
    text = f"A file with an approval code ends with a second line: '{value}'."
    return Rule("file", place, text, value, path, written[path])


def _meeting(builder: Builder, chance: random.Random, place: Place) -> Rule:
    paid = _invoice(builder)
    day = chance.choice([day for day in DAYS if day != builder.blocked])
    time = f"{chance.randrange(9, 17)}:{chance.choice(('10', '20', '40', '50'))}"
    meeting = Meeting(day, time, paid.note.partition(" ")[0])
    builder.world.wanted.meetings[meeting] += 1
    text = f"A paid invoice is put into the calendar on {day} at {time}, with the invoice's number as the title."
    return Rule("meeting", place, text, f"{day} at {time}", paid, meeting)


def _invoice(builder: Builder) -> Payment:
    """Return the payment of the task's invoice: its note begins with a number, all others with a topic."""
    return next(payment for payment in builder.world.wanted.payments if payment.note.startswith("N-"))
