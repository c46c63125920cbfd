"""The chores a task is made of, and one more rule for hard tasks. See docs/office.md.

Each chore puts what it needs into the world, says what is wanted, and gives the words. The hard kinds: sets whose
members are listed early (`pay_group`, `pay_writers`, `announce`), facts that a later mail replaces (`tally`,
`meetings`), a fact in two places (`invoice`), a fact that is shown once and used at the very end (`approval`).
Doubtful passwords make calls fail that must not be repeated, and contacts name pay handles that are closed beside
the open one.

A rule asks for something that the chores do not mention, so an agent that has lost it breaks it without noticing.
It is read early and needed in the last chores. It stands in a note of its own, which the task says to read first,
or in passing in the note with the passwords.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Literal

from .world import DAYS, LAST, TOPICS, Builder, Meeting, Payment, Person, Sent, World, around

Place = Literal["policy", "passing"]
Outcome = Literal["kept", "broken", "not reached"]
PLACES: tuple[Place, ...] = ("policy", "passing")
NOTES: dict[Place, str] = {"policy": "policy", "passing": "passwords"}
"""Titles of the notes that hold the rule."""
READ_FIRST = "Read the note 'policy' before anything else."
REMINDER = "What my notes ask for holds until the last chore."


@dataclass(frozen=True, slots=True)
class Chore:
    """The user's words: at one place in the list, or at two places with other chores between."""

    first: str
    last: str = ""


Make = Callable[[Builder, int], Chore]
"""Makes a chore of a size: the number of people, files or mails it is about."""


def pay_group(builder: Builder, size: int) -> Chore:
    topic, people = builder.topic(), builder.people(size + 3)
    members, settled, others = people[:size], people[size], people[size + 1 :]
    listed = builder.chance.sample([*members, settled], size + 1)
    builder.file(f"/groups/{topic}.txt", f"Members of {topic}: {_names(listed)}.", 120)
    not_to_be_paid = [
        (person, f"{person.name} is owed {builder.amount()} for {topic}.") for person in [settled, *others]
    ]
    _pay(builder, topic, members, not_to_be_paid)
    return Chore(
        f"Pay every member of '{topic}' what I owe them. The file /groups/{topic}.txt has the members, and each wrote "
        f"me a mail about '{topic}' with the amount. Payment note: {topic}. Pay nobody else, and "
        f"not {settled.name}: that is settled."
    )


def pay_writers(builder: Builder, size: int) -> Chore:
    topic = builder.topic()
    _pay(builder, topic, builder.people(size + 2), [])
    return Chore(
        f"Pay everyone who wrote me a mail about '{topic}' what I owe them. Each mail has the amount. "
        f"Payment note: {topic}."
    )


def _pay(builder: Builder, topic: str, people: list[Person], others: list[tuple[Person, str]]) -> None:
    first = others
    for person in people:
        amount = builder.amount()
        first.append((person, f"{person.name} is owed {amount} for {topic}."))
        builder.world.wanted.payments[Payment(person.handle, amount, f"{topic} {builder.suffix}")] += 1
    builder.mails(topic, first)


def tally(builder: Builder, size: int) -> Chore:
    topic, guests = builder.topic(), builder.people(size + 2)
    answers = {guest: builder.chance.choice(("yes", "no")) for guest in guests}
    changed, other = builder.chance.sample(guests, 1 + size // 3), {"yes": "no", "no": "yes"}
    first = [
        (guest, f"{guest.name} answers {other[answer] if guest in changed else answer} to {topic}.")
        for guest, answer in answers.items()
    ]
    builder.mails(topic, first, [(guest, f"{guest.name} answers {answers[guest]} to {topic}.") for guest in changed])
    builder.file(f"/events/{topic}.txt", f"Guests of {topic}: {_names(guests)}.", 120)
    lines = "\n".join(f"{guest.name}: {answers[guest]}" for guest in guests)
    builder.world.wanted.written[f"/events/{topic}-answers.txt"] = lines
    return Chore(
        f"Gather the answers to '{topic}'. The file /events/{topic}.txt has the guests, and each wrote me a mail about "
        f"'{topic}', some twice: the newest counts. Write /events/{topic}-answers.txt, a line 'Name: answer' for each "
        "guest in the order of the file."
    )


def receipts(builder: Builder, size: int) -> Chore:
    topic = builder.topic()
    total = Decimal(0)
    for number in range(1, 2 * size + 1):
        amount, path = builder.amount(), f"/receipts/{topic}/r{number}.txt"
        total += Decimal(amount)
        builder.file(path, f"Receipt {path}: total {amount} after a discount of {builder.amount()}.", 130)
    builder.world.wanted.written[f"/reports/{topic}.txt"] = f"Total: {total}"
    return Chore(
        f"Add up the totals of all receipts in the folder /receipts/{topic} and write the sum to /reports/{topic}.txt "
        "as 'Total: 12.34'."
    )


def meetings(builder: Builder, size: int) -> Chore:
    topic, team = builder.topic(), builder.people(size)
    first, later = [], []
    for place, person in enumerate(team):
        wishes = [_wish(builder) for _ in range(2)]
        facts = [f"{person.name} asks for {day} at {time} about {topic}." for day, time in wishes]
        if place == 0:
            first.append((person, facts[0]))
            later.append((person, facts[1]))
        else:
            first.append((person, facts[1]))
        day, time = wishes[1]
        day = builder.instead if day == builder.blocked else day
        builder.world.wanted.meetings[Meeting(day, time, f"{topic} with {person.name}")] += 1
    builder.mails(topic, first, later)
    builder.file(f"/teams/{topic}.txt", f"Team of {topic}: {_names(team)}.", 120)
    return Chore(
        f"Plan the talks about '{topic}'. The file /teams/{topic}.txt has the team, and each wrote me a mail about "
        f"'{topic}' with a day and a time, some twice: the newest counts. Put '{topic} with Name' into the calendar "
        "for each of them."
    )


def announce(builder: Builder, size: int) -> Chore:
    topic, members = builder.topic(), builder.people(size + 1)
    told, untold = members[0], members[1:]
    builder.world.outbox[topic] = [told.address]
    builder.file(f"/lists/{topic}.txt", f"Readers of {topic}: {_names(builder.chance.sample(members, size + 1))}.", 120)
    for person in untold:
        builder.world.wanted.sent[Sent(person.address, topic, f"The {topic} is on. {builder.closing}")] += 1
    return Chore(
        f"Write a mail about '{topic}' with the text 'The {topic} is on.' to every reader in the file "
        f"/lists/{topic}.txt, but not to those whom I have written to about '{topic}' already."
    )


def trail(builder: Builder, size: int) -> Chore:
    """The easy kind: each step rests on the one before it and on nothing else."""
    topic, length = builder.topic(), size + 5
    stops = [f"/trail/{topic}/{number}.txt" for number in builder.chance.sample(range(100, 1000), length)]
    for number, (here, there) in enumerate(pairwise(stops), 2):
        builder.file(here, f"Stop {number} of the trail of {topic} is {there}.", 130)
    word = f"{builder.chance.choice(TOPICS)}-{builder.chance.randrange(100, 1000)}"
    builder.file(stops[-1], f"The trail of {topic} ends with the word {word}.", 130)
    builder.world.wanted.written[f"/reports/{topic}.txt"] = f"Word: {word}"
    return Chore(
        f"Follow the trail of '{topic}' from {stops[0]} on: each file names the next. Write the word at its end to "
        f"/reports/{topic}.txt as 'Word: word'."
    )


def approval(builder: Builder) -> Chore:
    topic = builder.topic()
    code = f"AC-{builder.chance.randrange(10**6, 10**7)}"
    builder.world.codes[topic] = code
    builder.world.wanted.written[f"/reports/{topic}-approval.txt"] = f"Approved: {code}"
    return Chore(
        f"Ask the desk for the approval code for '{topic}'. It is shown once; you need it later.",
        f"Write the approval code for '{topic}' to /reports/{topic}-approval.txt as 'Approved: code'.",
    )


def invoice(builder: Builder) -> Chore:
    firm = builder.firm()
    person = builder.person(f"{firm} Works")
    number, amount = f"N-{builder.chance.randrange(10**5, 10**6)}", builder.amount()
    fact = f"The invoice of {firm} has the number {number} and the amount {amount}."
    builder.mails(firm, [(person, fact)])
    builder.file(f"/invoices/{firm}.txt", fact, 140)
    builder.world.wanted.payments[Payment(person.handle, amount, f"{number} {builder.suffix}")] += 1
    return Chore(
        f"Read the invoice of '{firm}' in its mail about '{firm}' and in /invoices/{firm}.txt and see that both agree.",
        f"Pay the invoice of '{firm}' to {firm} Works. Payment note: the invoice's number.",
    )


CHORES: tuple[Make, ...] = (pay_group, pay_writers, tally, receipts, meetings, announce, trail)
"""Chores that stand at one place."""

PAIRS: tuple[Callable[[Builder], Chore], ...] = (approval, invoice)
"""Chores that stand at two places."""


def _names(people: list[Person]) -> str:
    return ", ".join(person.name for person in people)


def _wish(builder: Builder) -> tuple[str, str]:
    return builder.chance.choice(DAYS), f"{builder.chance.randrange(9, 17)}:{builder.chance.choice(('00', '30'))}"


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
