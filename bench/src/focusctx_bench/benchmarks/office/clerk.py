"""The clerk, the scripted agent of the office: it knows what its messages say, and nothing else.

Nothing here imports the world. `decide` makes one turn, from the messages alone; each chore says what it needs, in
order, and is done when it runs through without `Do`; `Mind` answers a chore's questions from what is known, or with
the calls to make first; `Knowledge` holds facts, the messages that state them, and which of them a decision used. A
fact counts wherever it is stated: in a result, in a summary, in the agent's own words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from focusctx.types import Message

from ...models.scripted import Say

Chore = Callable[..., None]
Call = tuple[str, dict[str, Any]]
AT_ONCE = 4
"""The most calls of one turn."""
Key = tuple[str, ...]
_NAME = r"([A-Z]\w+ [A-Z]\w+)"
_MAIL = re.compile(r"^Mail m-(\d+) about '(\w+)' from ", re.MULTILINE)
_DONE = re.compile(r"Chores done: ([\d, ]+)\.")
_COMPLETE = re.compile(r"Complete: ([^.\n]+)\.")


def decide(messages: Sequence[Message]) -> Say:
    return decide_from(read(messages))


def decide_from(known: Knowledge) -> Say:
    """Go on with the first chore that, as far as the agent can tell, is not done.

    Its words say what is done and what it has gone through, as a language model's do: that is all it has to remember.
    """
    chores = sorted((int(key[0]), words) for key, words in known.under("chore"))
    if not chores:
        return Say("I do not see what I am to do.")
    done = []
    for number, words in chores:
        if known.has("done", str(number)):
            done.append(number)
            continue
        mind = Mind(known)
        try:
            go_about(mind, words)
        except Do as first:
            return Say(_words(done, number, str(first), mind.complete), first.calls)
        except GiveUp as problem:
            return Say(f"I have to stop at chore {number}: {problem}.")
        done.append(number)
    return Say("All chores are done.")


def _words(done: Sequence[int], number: int, doing: str, complete: Sequence[str]) -> str:
    before = f"Chores done: {', '.join(map(str, done))}. " if done else ""
    gone_through = f" Complete: {'; '.join(dict.fromkeys(complete))}." if complete else ""
    return f"{before}Chore {number}: {doing}.{gone_through}"


def pay_group(mind: Mind, topic: str, settled: str) -> None:
    members = mind.people("Members", topic, f"/groups/{topic}.txt")
    _pay_all(mind, topic, [name for name in members if name != settled])


def pay_writers(mind: Mind, topic: str) -> None:
    _pay_all(mind, topic, mind.writers(topic))


def _pay_all(mind: Mind, topic: str, people: Sequence[str]) -> None:
    mind.read_mails(topic, people)
    unpaid = [name for name in people if not mind.was_paid(name, topic)]
    mind.find(unpaid)
    for name in unpaid:
        amount = mind.mailed("owed", topic, name)
        if amount is not None:
            raise mind.pay(name, amount, topic)


def tally(mind: Mind, topic: str) -> None:
    path = f"/events/{topic}-answers.txt"
    if mind.known.has("wrote", path):
        return
    guests = mind.people("Guests", topic, f"/events/{topic}.txt")
    mind.read_mails(topic, guests)
    lines = [f"{guest}: {mind.mailed('answer', topic, guest) or 'no answer'}" for guest in guests]
    raise mind.do(f"writing down the answers to {topic}", "files_write", {"path": path, "text": "\n".join(lines)})


def receipts(mind: Mind, topic: str) -> None:
    folder, path = f"/receipts/{topic}", f"/reports/{topic}.txt"
    if mind.known.has("wrote", path):
        return
    files = mind.known.get("files", folder)
    if files is None:
        raise mind.do(f"looking into {folder}", "files_list", {"folder": folder})
    totals = {file: mind.known.get("total", file) for file in files}
    if unread := [file for file, total in totals.items() if total is None]:
        raise mind.do(f"reading the receipts of {topic}", "files_read", {"path": unread[0]})
    total = sum(map(Decimal, totals.values()), Decimal(0))
    raise mind.do(f"writing the sum for {topic}", "files_write", {"path": path, "text": f"Total: {total}"})


def meetings(mind: Mind, topic: str) -> None:
    team = mind.people("Team", topic, f"/teams/{topic}.txt")
    mind.read_mails(topic, team)
    for name in team:
        title = f"{topic} with {name}"
        if mind.known.has("meeting", title):
            continue
        if wish := mind.mailed("wish", topic, name):
            blocked, instead = mind.rule("meetings")
            day = instead if wish[0] == blocked else wish[0]
            raise mind.do(
                f"planning the talk with {name}", "calendar_add", {"day": day, "time": wish[1], "title": title}
            )


def announce(mind: Mind, topic: str) -> None:
    readers = mind.people("Readers", topic, f"/lists/{topic}.txt")
    what = f"check of mails sent about {topic}"
    if not (mind.known.has("complete", what) or mind.known.has("sent list", topic)):
        raise mind.do(f"looking whom I wrote to about {topic}", "mail_sent", {"about": topic})
    mind.complete.append(what)
    untold = [name for name in readers if not mind.was_written_to(name, topic)]
    mind.find(untold)
    for name in untold:
        mail = {
            "to": mind.known.get("address", name),
            "about": topic,
            "text": f"The {topic} is on. {mind.rule('mails')}",
        }
        raise mind.do(f"writing to {name}", "mail_send", mail)


def trail(mind: Mind, topic: str, start: str) -> None:
    path = f"/reports/{topic}.txt"
    if mind.known.has("wrote", path):
        return
    word = mind.known.get("word", topic)
    if word is None:
        here = mind.known.get("stop", topic) or start
        raise mind.do(f"following the trail of {topic}", "files_read", {"path": here})
    raise mind.do(f"writing the word of {topic}", "files_write", {"path": path, "text": f"Word: {word}"})


def ask_approval(mind: Mind, topic: str) -> None:
    if mind.known.has("code", topic):
        return
    if mind.known.has("code gone", topic):
        raise GiveUp(f"the approval code for {topic} is not to be had again")
    raise mind.do(f"asking for the approval code for {topic}", "desk_approval", {"purpose": topic})


def write_approval(mind: Mind, topic: str) -> None:
    path = f"/reports/{topic}-approval.txt"
    if mind.known.has("wrote", path):
        return
    ask_approval(mind, topic)
    line = mind.known.get("rule", "approvals")
    text = f"Approved: {mind.known.get('code', topic)}" + (f"\n{line}" if line else "")
    raise mind.do(f"writing the approval code for {topic}", "files_write", {"path": path, "text": text})


def read_invoice(mind: Mind, firm: str) -> None:
    mind.read_mails(firm, [f"{firm} Works"])
    path = f"/invoices/{firm}.txt"
    if not mind.known.has("file", path):
        raise mind.do(f"reading the invoice of {firm}", "files_read", {"path": path})


def pay_invoice(mind: Mind, firm: str) -> None:
    invoice = mind.known.get("invoice", firm)
    if invoice is None:
        raise mind.do(f"reading the invoice of {firm}", "files_read", {"path": f"/invoices/{firm}.txt"})
    number, amount = invoice
    begin = mind.known.get("rule", "firms")
    if not mind.was_paid(f"{firm} Works", begin or number):
        raise mind.pay(f"{firm} Works", amount, f"{begin} {number}" if begin else number)
    entry = mind.known.get("rule", "invoices")
    if entry and not mind.known.has("meeting", number):
        meeting = {"day": entry[0], "time": entry[1], "title": number}
        raise mind.do(f"putting the invoice of {firm} into the calendar", "calendar_add", meeting)


def read_note(mind: Mind, title: str) -> None:
    if not mind.known.has("note", title):
        raise mind.do(f"reading the note {title}", "notes_read", {"title": title})


_BY_WORDS: dict[str, Chore] = {
    r"Pay every member of '(\w+)'.* and not (\w+ \w+): that is settled": pay_group,
    r"Pay everyone who wrote me a mail about '(\w+)'": pay_writers,
    r"Gather the answers to '(\w+)'": tally,
    r"Add up the totals of all receipts in the folder /receipts/(\w+)": receipts,
    r"Plan the talks about '(\w+)'": meetings,
    r"Write a mail about '(\w+)'": announce,
    r"Follow the trail of '(\w+)' from (\S+) on": trail,
    r"Ask the desk for the approval code for '(\w+)'": ask_approval,
    r"Write the approval code for '(\w+)'": write_approval,
    r"Read the invoice of '(\w+)'": read_invoice,
    r"Read the note '(\w+)' before anything else": read_note,
    r"Pay the invoice of '(\w+)'": pay_invoice,
}


def go_about(mind: Mind, words: str) -> None:
    """Do the chore that these words ask for."""
    for pattern, chore in _BY_WORDS.items():
        if match := re.match(pattern, words):
            return chore(mind, *match.groups())
    raise GiveUp(f"I do not understand: {words}")


class Do(Exception):
    """Something has to be done first."""

    def __init__(self, why: str, *calls: Call) -> None:
        super().__init__(why)
        self.calls = calls


class GiveUp(Exception):
    """There is no way on."""


class Mind:
    """Answers one chore's questions at one step."""

    def __init__(self, known: Knowledge) -> None:
        self.known = known
        self.complete: list[str] = []
        """Lists that the agent will say it has gone through: later it believes that, in sight or not."""

    def do(self, why: str, tool: str, *arguments: dict[str, Any]) -> Do:
        """Return calls of one tool, one for each of the arguments, with the token of its app."""
        app = tool.partition("_")[0]
        token = {} if app in ("help", "notes", "desk") else {"token": self._token(app)}
        return Do(why, *((tool, token | given) for given in arguments[:AT_ONCE]))

    def rule(self, kind: str) -> Any:
        rule = self.known.get("rule", kind)
        if rule is None:
            raise self.do("reading the house rules", "notes_read", {"title": "house rules"})
        return rule

    def people(self, kind: str, topic: str, path: str) -> tuple[str, ...]:
        names: tuple[str, ...] | None = self.known.get(kind, topic)
        if names is None:
            raise self.do(f"reading who belongs to {topic}", "files_read", {"path": path})
        return names

    def writers(self, topic: str) -> list[str]:
        """Return the people who wrote about it, as far as the lists in sight say."""
        return list(dict.fromkeys(self._listed(topic).values()))

    def read_mails(self, topic: str, senders: Sequence[str]) -> None:
        """Read each mail about it from these people, once."""
        what = f"mails about {topic}"
        if not self.known.has("complete", what):
            listed = self._listed(topic)
            if unread := self._unread(mail for mail, sender in listed.items() if sender in senders):
                raise self.do(f"reading the mails about {topic}", "mail_read", *unread)
        self.complete.append(what)

    def mailed(self, kind: str, topic: str, name: str) -> Any:
        """Return what the newest mail in sight says; it is looked up again when none is."""
        found = self.known.get(kind, topic, name)
        if found is not None:
            return found
        mails = [mail for mail, sender in self._listed(topic).items() if sender == name]
        if not mails:
            self._list_missing_pages(topic)
        if unread := self._unread(mails):
            raise self.do(f"reading what {name} wrote about {topic}", "mail_read", *unread)
        return None

    def find(self, names: Sequence[str]) -> None:
        """Look up the contacts of these people."""
        missing = [name for name in names if not self.known.has("handle", name)]
        if missing:
            raise self.do(f"looking up {missing[0]}", "contacts_find", *({"name": name} for name in missing))

    def was_paid(self, name: str, word: str) -> bool:
        stem = f"@{_stem(name)}-"
        return any(key[0].startswith(stem) for key, _ in self.known.under("paid", word))

    def was_written_to(self, name: str, topic: str) -> bool:
        address = f"{_stem(name)}@post.example"
        before = self.known.get("sent list", topic) or ()
        return self.known.has("sent", topic, address) or address in before

    def pay(self, name: str, amount: str, word: str) -> Do:
        self.find([name])
        payment = {"to": self.known.get("handle", name), "amount": amount, "note": f"{word} {self.rule('payments')}"}
        return self.do(f"paying {name}", "pay_send", payment)

    def _listed(self, topic: str) -> dict[str, str]:
        """Return the mails about it: all of them the first time, later those that are still in sight."""
        what = f"list of mails about {topic}"
        seen = any(True for _ in self.known.under("page", topic))
        if not (self.known.has("complete", what) and seen):
            self._list_missing_pages(topic)
        self.complete.append(what)
        return {key[0]: sender for key, sender in self.known.under("listed", topic)}

    def _list_missing_pages(self, topic: str) -> None:
        pages = {int(key[0]): total for key, total in self.known.under("page", topic)}
        missing = [page for page in range(1, max(pages.values(), default=1) + 1) if page not in pages]
        if missing:
            raise self.do(f"listing the mails about {topic}", "mail_list", {"about": topic, "page": missing[0]})

    def _unread(self, mails: Iterable[str]) -> list[dict[str, Any]]:
        return [{"id": mail} for mail in mails if not self.known.has("mail", mail)]

    def _token(self, app: str) -> str:
        token: str | None = self.known.get("token", app)
        if token is not None:
            return token
        if not (self.known.has("help", app) or self.known.has("tried", app)):
            raise self.do(f"reading how {app} is used", "help_read", {"app": app})
        raise Do(f"logging in to {app}", ("login", {"app": app, "password": self._password(app)}))

    def _password(self, app: str) -> str:
        if self.known.has("locked", app):
            raise GiveUp(f"the account for {app} is locked")
        candidates: tuple[str, ...] | None = self.known.get("passwords", app)
        if candidates is None:
            raise self.do("reading my passwords", "notes_read", {"title": "passwords"})
        possible = [password for password in candidates if not self.known.has("failed", app, password)]
        tried = self.known.get("tried", app)
        if tried in possible:  # the last one tried, and no failure in sight: it must have worked
            return str(tried)
        if not possible:
            raise GiveUp(f"no password left for {app}")
        return possible[0]


def _stem(name: str) -> str:
    return name.lower().replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Fact:
    key: Key
    value: Any
    order: int = 0
    """Rank: of two values the one with the higher order counts, then the one stated later."""


@dataclass(frozen=True, slots=True)
class Used:
    """A fact that a decision rests on, and the messages that state it: any one of them is enough."""

    key: Key
    value: Any
    places: frozenset[int]


class Knowledge:
    def __init__(self) -> None:
        self._facts: dict[Key, list[tuple[int, int, Any]]] = {}
        self.used: list[Used] = []

    def add(self, fact: Fact, place: int) -> None:
        self._facts.setdefault(fact.key, []).append((fact.order, place, fact.value))

    def get(self, *key: str) -> Any:
        """Return the value, or None when no message states it."""
        stated = self._facts.get(key)
        if not stated:
            return None
        value = max(stated, key=lambda one: one[:2])[2]
        last_other = max((one[:2] for one in stated if one[2] != value), default=(-1, -1))
        sources = frozenset(place for order, place, other in stated if other == value and (order, place) > last_other)
        self.used.append(Used(key, value, sources))
        return value

    def has(self, *key: str) -> bool:
        return self.get(*key) is not None

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._facts))

    def under(self, *prefix: str) -> Iterator[tuple[Key, Any]]:
        """Yield all that is known below a key: the rest of each key, and its value."""
        for key in self:
            if key[: len(prefix)] == prefix and len(key) > len(prefix):
                yield key[len(prefix) :], self.get(*key)


_PLAIN: list[tuple[str, Callable[[re.Match[str]], Fact]]] = [
    (r"^(\d+)\. (.+)$", lambda m: Fact(("chore", m[1]), m[2])),
    (r"^Help for (\w+)\.", lambda m: Fact(("help", m[1]), True)),
    (r"Token for (\w+): (\S+)", lambda m: Fact(("token", m[1]), m[2])),
    (r"wrong password (\S+) for (\w+)\.", lambda m: Fact(("failed", m[2], m[1]), True)),
    (r"[Tt]he account for (\w+) is locked", lambda m: Fact(("locked", m[1]), True)),
    (r"Passwords for (\w+): (\S+(?: or \S+)*)", lambda m: Fact(("passwords", m[1]), tuple(m[2].split(" or ")))),
    (r"Rule for payments: end every note with (\S+) after", lambda m: Fact(("rule", "payments"), m[1])),
    (r"Rule for mails: end every mail with '([^']+)' after", lambda m: Fact(("rule", "mails"), m[1])),
    (r"Rule for meetings: nothing on (\w+), take (\w+) instead", lambda m: Fact(("rule", "meetings"), (m[1], m[2]))),
    (r"^Note '(\w+)'\.$", lambda m: Fact(("note", m[1]), True)),
    (r"The note of a payment to a firm begins with (\S+) and a blank", lambda m: Fact(("rule", "firms"), m[1])),
    (r"A file with an approval code ends with a second line: '([^']+)'", lambda m: Fact(("rule", "approvals"), m[1])),
    (r"A paid invoice is put into the calendar on (\w+) at (\S+),", lambda m: Fact(("rule", "invoices"), (m[1], m[2]))),
    (r"(Members|Guests|Team|Readers) of (\w+): ([^.\n]+)\.", lambda m: Fact((m[1], m[2]), tuple(m[3].split(", ")))),
    (r"Mails about '(\w+)', page (\d+) of (\d+)\.", lambda m: Fact(("page", m[1], m[2]), int(m[3]))),
    (rf"- (m-\d+) about '(\w+)' from {_NAME},", lambda m: Fact(("listed", m[2], m[1]), m[3])),
    (r"Mails sent about '(\w+)': ([^\n]+)\.", lambda m: Fact(("sent list", m[1]), tuple(m[2].split(", ")))),
    (r"Sent to (\S+) about '(\w+)'\.", lambda m: Fact(("sent", m[2], m[1]), True)),
    (r"Files in (\S+): ([^\n]+)\.\n", lambda m: Fact(("files", m[1]), tuple(m[2].split(", ")))),
    (r"^File (\S+)\.$", lambda m: Fact(("file", m[1]), True)),
    (r"Wrote (\S+), \d+ lines", lambda m: Fact(("wrote", m[1]), True)),
    (r"Receipt (\S+): total (\d+\.\d\d) after", lambda m: Fact(("total", m[1]), m[2])),
    (rf"{_NAME} has the mail address (\S+)\.", lambda m: Fact(("address", m[1]), m[2])),
    (rf"{_NAME} takes payments at (@[\w-]+)", lambda m: Fact(("handle", m[1]), m[2])),
    (r"Paid \S+ to (@\S+) with the note '(\S+)", lambda m: Fact(("paid", m[2].rstrip("'"), m[1]), True)),
    (r"Added '([^'\n]+)' on", lambda m: Fact(("meeting", m[1]), True)),
    (
        r"The invoice of (\w+) has the number (\S+) and the amount (\d+\.\d\d)",
        lambda m: Fact(("invoice", m[1]), (m[2], m[3])),
    ),
    (r"Stop (\d+) of the trail of (\w+) is (\S+)\.$", lambda m: Fact(("stop", m[2]), m[3], int(m[1]))),
    (r"The trail of (\w+) ends with the word (\S+)\.$", lambda m: Fact(("word", m[1]), m[2])),
    (r"Approval code for '(\w+)': (\S+)", lambda m: Fact(("code", m[1]), m[2])),
    (r"the approval code for '(\w+)' was issued already", lambda m: Fact(("code gone", m[1]), True)),
]
"""Patterns of sentences, and the facts that they state in any text."""

_MAILED: list[tuple[str, Callable[[re.Match[str]], Fact]]] = [
    (rf"{_NAME} is owed (\d+\.\d\d) for (\w+)\.", lambda m: Fact(("owed", m[3], m[1]), m[2])),
    (rf"{_NAME} answers (\w+) to (\w+)\.", lambda m: Fact(("answer", m[3], m[1]), m[2])),
    (rf"{_NAME} asks for (\w+) at (\S+) about (\w+)\.", lambda m: Fact(("wish", m[4], m[1]), (m[2], m[3]))),
]
"""Sentences that a newer mail can replace."""

_PATTERNS = [(re.compile(pattern, re.MULTILINE), fact) for pattern, fact in _PLAIN]
_MAIL_PATTERNS = [(re.compile(pattern), fact) for pattern, fact in _MAILED]


def read(messages: Sequence[Message]) -> Knowledge:
    known = Knowledge()
    results = {
        message["tool_call_id"]: message.get("content") or "" for message in messages if message["role"] == "tool"
    }
    for place, message in enumerate(messages):
        for fact in _stated(message.get("content") or ""):
            known.add(fact, place)
        for call in message.get("tool_calls") or ():
            function = call["function"]
            failed = results.get(call["id"], "").startswith("Error")
            for fact in _carried(function["name"], function["arguments"], failed):
                known.add(fact, place)
    return known


@lru_cache(maxsize=4096)
def _stated(text: str) -> tuple[Fact, ...]:
    facts = [make(match) for pattern, make in _PATTERNS for match in pattern.finditer(text)]
    heads = [(match.start(), int(match[1])) for match in _MAIL.finditer(text)]
    facts += [Fact(("mail", f"m-{number}"), True) for _, number in heads]
    for pattern, make in _MAIL_PATTERNS:
        for match in pattern.finditer(text):
            number = max((number for start, number in heads if start < match.start()), default=0)
            facts.append(replace(make(match), order=number))
    for match in _DONE.finditer(text):
        facts += [Fact(("done", number), True) for number in match[1].split(", ")]
    for match in _COMPLETE.finditer(text):
        facts += [Fact(("complete", what), True) for what in match[1].split("; ")]
    return tuple(facts)


@lru_cache(maxsize=4096)
def _carried(name: str, arguments: str, failed: bool) -> tuple[Fact, ...]:
    return tuple(_of_call(name, json.loads(arguments), failed))


def _of_call(name: str, given: Mapping[str, Any], failed: bool) -> Iterator[Fact]:
    if name == "login":
        yield Fact(("tried", given["app"]), given["password"])
    if name == "help_read":
        yield Fact(("help", given["app"]), True)
    if failed:
        return
    if "token" in given:
        yield Fact(("token", name.partition("_")[0]), given["token"])
    if name == "pay_send":
        yield Fact(("paid", given["note"].partition(" ")[0], given["to"]), True)
    elif name == "mail_send":
        yield Fact(("sent", given["about"], given["to"]), True)
    elif name == "files_write":
        yield Fact(("wrote", given["path"]), True)
    elif name == "calendar_add":
        yield Fact(("meeting", given["title"]), True)
