"""Facts: strings in a text that an agent has to reproduce exactly, such as paths, ids, numbers and joined names.

Beside them, what else is read in a text by plain patterns: amounts and times, words, questions, what a call tries.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

_TOKEN = re.compile(r"[#~./]*\w[\w./@+-]*")
_ESCAPE = re.compile(r'\\+[nrt"]')  # arguments arrive as JSON text: "\nimport" is not a name
_CAMEL = re.compile(r"[a-z][A-Z]")
_LABEL = re.compile(r"s_?\d+", re.IGNORECASE)  # looks like a span's own label
_PERSON = re.compile(r"\b[A-Z][a-z]+(?:[ -][A-Z][a-z]+)+\b")
_QUOTED = re.compile(r"""['"`]([^'"`\n]{3,60})['"`]""")
_NUMBER = re.compile(r"[\d.+-]+")
_DIGITS = re.compile(r"\d+")
_LETTERS = re.compile(r"[^\W\d_]+")
_PROSE = re.compile(r"(?:\b[A-Za-z][a-z'’]*[ ,]+){3,}[A-Za-z]+")
_WORD = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}")
_FILE = re.compile(
    r"/|\.(?:py|pyi|ipynb|md|rst|txt|jsx?|tsx?|json|ya?ml|toml|cfg|ini|html?|css|c|h|cc|cpp|hpp|go|rs|java|kt|rb|php"
    r"|sh|sql|csv|tsv|xml|lock|log|docx?|xlsx?|pptx?|pdf|png|jpe?g|zip|tar|gz)$",
    re.IGNORECASE,
)
_RECORD_START = re.compile(r"""\s*(?:\{\s*["'}]|\[\s*[\[{"'\d\]])""")
_KEY = re.compile(r'"(\w+)\\*"\s*:')
_FENCE = re.compile(r"```\w*")
_DETAIL = re.compile(r"\b\d[\d:.,/%-]*|(?<=[a-z0-9,;:|] )[A-Z][a-z]+\b")
"""A number, a time, a date, or a name in the middle of a sentence."""
_SHORTEST, _LONGEST = 4, 120
"""Fewest and most characters of a fact. Shorter strings are everywhere; longer ones are blobs not typed again."""
_ID_DIGITS = 7
"""Digits from which a number identifies one thing: item, account and phone numbers, not sizes or years."""


class Kind(StrEnum):  # unlike members of other enums, these hash as fast as strings
    FILE = "file"
    NUMBER = "number"
    ID = "id"
    NAME = "name"
    ANSWER = "answer"
    DETAIL = "detail"


def facts_in(text: str) -> frozenset[str]:
    """Return the strings in a text that have to be exact: paths, ids, numbers, joined names, names of people."""
    found = {fact for token in set(_TOKEN.findall(text)) if (fact := _as_fact(token))}
    return frozenset(found.union(_PERSON.findall(text)))


def facts_of(text: str) -> frozenset[str]:
    """Return the facts of calls and results: without the names of JSON fields, which tell nothing of the task."""
    fields = {field for field in _KEY.findall(text) if not any(map(str.isdigit, field))}
    return facts_in(_ESCAPE.sub(" ", text)) - fields


@lru_cache(maxsize=2**16)
def _as_fact(token: str) -> str | None:
    name = token.removeprefix("./").rstrip("./+-@")
    if not _SHORTEST <= len(name) <= _LONGEST or _LABEL.fullmatch(name):
        return None
    if _NUMBER.fullmatch(name):
        return name if sum(map(str.isdigit, name)) >= _SHORTEST else None
    if any(map(str.isdigit, name)):
        # `250p`, `3rd` and the like are not ids; codes such as `4OG6T3` are.
        return name if not name[0].isdigit() or len(name) >= 6 else None
    joined = "_" in name.strip("_") or "." in name[1:] or "/" in name[1:] or "@" in name
    return name if joined or _CAMEL.search(name) or name.startswith("__") else None


def kind_of(fact: str) -> Kind:
    if fact.isdecimal():  # the most common kind in large results, and the fastest to tell
        return Kind.NUMBER if len(fact) < _ID_DIGITS else Kind.ID
    return _kind_of(fact)


@lru_cache(maxsize=2**16)
def _kind_of(fact: str) -> Kind:
    if _FILE.search(fact):
        return Kind.FILE
    digits = sum(map(str.isdigit, fact))
    if digits < _ID_DIGITS and _NUMBER.fullmatch(fact):
        return Kind.NUMBER
    return Kind.ID if digits else Kind.NAME


def form_of(fact: str) -> str:
    """Return the form of a fact: `#W3220203` and `#W9311069` have the same one."""
    return "9" if fact.isdecimal() else _DIGITS.sub("9", _LETTERS.sub("a", fact))


def is_person(fact: str) -> bool:
    return _PERSON.fullmatch(fact) is not None


def words_of(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))


def prose_in(text: str) -> str:
    """Return the stretches of plain words in a text."""
    return " ".join(_PROSE.findall(text))


def topics_in(text: str) -> frozenset[str]:
    """Return the things that a user names: what stands in quotes, and facts."""
    return frozenset(_QUOTED.findall(text)) | facts_in(text)


def details_in(text: str) -> frozenset[str]:
    """Return the amounts, times, dates, and names of one word in the middle of a sentence."""
    return frozenset(_DETAIL.findall(text))


def is_plain(text: str) -> bool:
    """True if a text holds no fact, and no amount, time or name in the middle of a sentence."""
    return _DETAIL.search(text) is None and not facts_in(text)


def is_record(text: str) -> bool:
    """True if a text is structured data."""
    return _RECORD_START.match(text) is not None


def tried_in(action: str) -> str:
    """Return the tool or command that an action starts with."""
    token = _TOKEN.search(_FENCE.sub(" ", action))
    return token[0][:_LONGEST].rstrip("./+-@") if token else "the action"


def aim_of(action: str) -> frozenset[str]:
    """Return what an action is about: its facts, without the tool and the names of arguments."""
    return facts_in(_ESCAPE.sub(" ", action)) - {tried_in(action), *_KEY.findall(action)}
