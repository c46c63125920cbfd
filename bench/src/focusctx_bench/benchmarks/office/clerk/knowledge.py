"""The knowledge of the agent at one step: facts, the messages that state them, and which of them a decision used.

A fact counts wherever it is stated: in a result, in a summary, in the agent's own words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from focusctx.types import Message

Key = tuple[str, ...]


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
        """The value, or None when no message states it."""
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
        """All that is known below a key: what is left of each key, and its value."""
        for key in self:
            if key[: len(prefix)] == prefix and len(key) > len(prefix):
                yield key[len(prefix) :], self.get(*key)


_NAME = r"([A-Z]\w+ [A-Z]\w+)"
_MAIL = re.compile(r"^Mail m-(\d+) about '(\w+)' from ", re.MULTILINE)

_PLAIN: list[tuple[str, Callable[[re.Match[str]], Fact]]] = [
    (r"^(\d+)\. (.+)$", lambda m: Fact(("chore", m[1]), m[2])),
    (r"^Help for (\w+)\.", lambda m: Fact(("help", m[1]), True)),
    (r"Token for (\w+): (\S+)", lambda m: Fact(("token", m[1]), m[2])),
    (r"wrong password (\S+) for (\w+)\.", lambda m: Fact(("failed", m[2], m[1]), True)),
    (r"[Tt]he account for (\w+) is locked", lambda m: Fact(("locked", m[1]), True)),
    (r"Passwords for (\w+): (\S+(?: or \S+)*)", lambda m: Fact(("passwords", m[1]), tuple(m[2].split(" or ")))),
    (r"Rule for payments: end every note with (\S+) after", lambda m: Fact(("rule", "payments"), m[1])),
    (r"Rule for mails: end every mail with '([^']+)' after", lambda m: Fact(("rule", "mails"), m[1])),
    (
        r"Rule for meetings: nothing on (\w+), take (\w+) instead",
        lambda m: Fact(("rule", "meetings"), (m[1], m[2])),
    ),
    (r"^Note '(\w+)'\.$", lambda m: Fact(("note", m[1]), True)),
    (r"The note of a payment to a firm begins with (\S+) and a blank", lambda m: Fact(("rule", "firms"), m[1])),
    (r"A file with an approval code ends with a second line: '([^']+)'", lambda m: Fact(("rule", "approvals"), m[1])),
    (
        r"A paid invoice is put into the calendar on (\w+) at (\S+),",
        lambda m: Fact(("rule", "invoices"), (m[1], m[2])),
    ),
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
_DONE = re.compile(r"Chores done: ([\d, ]+)\.")
_COMPLETE = re.compile(r"Complete: ([^.\n]+)\.")


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
