"""Read texts and steps for the offline draft and the selection: facts, words that give something away, calls.

A fact is a string that an agent has to reproduce exactly, such as a path, an id, a number or a joined name. Plain
patterns find facts, and also amounts and times, questions, what a call tries, rules, and that something is shown only
once.

A step does not change once it is complete. So its facts, its calls, and their aims and outcomes are read at most once,
when they are first asked for.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ..types import Call, Span, Unit
from ..wire import Role, results_by_call
from ..wire.calls import calls_of, has_failed, is_reading
from ..wire.part import join

if TYPE_CHECKING:
    from ..pipeline.outline import Outline

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
_ONCE = re.compile(
    r"\b(?:shown|displayed|visible|sent|given|valid|usable|available)\s+(?:only\s+)?once\b|\bonly\s+once\b"
    r"|\b(?:not|never|won't|n't)\s+(?:be\s+)?(?:shown|displayed|visible|available|repeated|able to see)\b.*\bagain\b"
    r"|\bone[- ]time\b|\b(?:save|store|copy|note)\s+(?:it|this|them|these)\s+(?:down|now|safely|somewhere|code|key)\b"
    r"|\bwrite\s+(?:it|this)\s+down\b|\bcannot be (?:retrieved|recovered|shown)\b|\bkeep (?:it|this) safe\b",
    re.IGNORECASE,
)
_RULE = re.compile(
    r"(?:^|[.!?:;]\s)\W*(?:rule\b[^:\n]*:|never\b|do not\b|don't\b|always\b|at most\b|no more than\b"
    r"|you (?:must|may not|should never|are not allowed)\b|it is forbidden\b)"
    r"|\b(?:must (?:not|never|always|first|be)|(?:is|are) (?:not allowed|forbidden)|may not be)\b",
    re.IGNORECASE | re.MULTILINE,
)
_RULE_IN_PASSING = re.compile(
    _RULE.pattern
    + r"|(?:^|[.!?:;]\s)\W*(?:under no circumstances\b|make sure\b|be sure to\b|you (?:may only|have to)\b"
    r"|only\b[^.\n]{1,40}\b(?:may|can)\b|please (?:do not|don't|never|always|only|use|leave|make sure|ensure)\b)"
    r"|\b(?:(?:is|are) (?:prohibited|not permitted|reserved for|only allowed|required to)|may only"
    r"|without (?:prior |written )?(?:approval|permission|consent))\b",
    re.IGNORECASE | re.MULTILINE,
)
_CODE = re.compile(
    r"^\s*(?:\d+[\s:|-]+)?\s*(?:#|//|\*|/\*|--|>>>|[-+]\s{2,}|(?:raise|def|class|assert|return|if)\b|\"\"\"|'''"
    r"|[\w.\[\]]+\s*[=(]|[\"'\])}])|[{};]\s*$|^\w+(?:\.\w+)+:|\w\.\w+\(|_\(|\bself\b|\berror:",
    re.IGNORECASE,
)
"""A line of a program or of an error: what it forbids concerns other programs."""
_RULE_WORDS = (
    *("never", "not", "n't", "always", "at most", "no more than", "must", "may", "forbidden", "rule", "only", "please"),
    *("sure", "have to", "circumstances", "prohibited", "reserved", "required", "approval", "permission", "consent"),
)
"""Words one of which is in every rule: plain words are much faster to look for."""
_JSON_VALUE = re.compile(r'"\w+"\s*:\s*"((?:[^"\\]|\\.)+)"')


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


def is_shown_once(text: str) -> bool:
    """True if a text says that it, or a part of it, will not be shown again."""
    return _ONCE.search(text) is not None


def states_rule(text: str) -> bool:
    """True if a text that is known to hold rules states one."""
    return _RULE.search(text) is not None


def may_state_rules(text: str) -> bool:
    """True if a text has words without which there is no rule."""
    lowered = text.lower()
    return any(word in lowered for word in _RULE_WORDS)


def rules_in(text: str) -> Iterator[str]:
    """Yield the lines of any text, or values of JSON, that state a rule."""
    for match in _RULE_IN_PASSING.finditer(text):
        start = text.rfind("\n", 0, match.start() + 1) + 1
        line = text[start : text.find("\n", match.end()) % (len(text) + 1)]
        for value in _JSON_VALUE.findall(line) or [line]:
            if _RULE_IN_PASSING.search(value) and not _CODE.search(value):
                yield value.strip()


class StepReading:
    """Facts, calls and attempts in a step's own texts."""

    def __init__(self, span: Span, format: str) -> None:
        self._span = span
        self._format = format
        self._named: tuple[frozenset[str], dict[str, frozenset[str]]] = frozenset(), {}

    @cached_property
    def facts(self) -> frozenset[str]:
        """The facts of the whole step."""
        return facts_of(join([self._span.thought, self._span.action, self._span.observation]))

    @cached_property
    def done(self) -> frozenset[str]:
        """The facts of its action."""
        return facts_of(self._span.action)

    @cached_property
    def said(self) -> frozenset[str]:
        """The facts of its thought."""
        return facts_in(self._span.thought)

    @cached_property
    def is_record(self) -> bool:
        """True if its observation is structured data."""
        return is_record(self._span.observation)

    @cached_property
    def used_forms(self) -> frozenset[str]:
        """The forms of the facts in its action, of those that are more than names."""
        return frozenset(form_of(fact) for fact in self.done if kind_of(fact) is not Kind.NAME)

    @cached_property
    def action(self) -> str:
        """Its action with all blanks alike."""
        return _collapsed(self._span.action)

    @cached_property
    def calls(self) -> tuple[CallReading, ...]:
        """Its calls; the action of an agent that acts in plain text counts as calls, too."""
        return tuple(map(CallReading, calls_of(self._span)))

    @cached_property
    def facts_of_calls(self) -> Mapping[str, frozenset[str]]:
        """The facts of each tool call, by its id."""
        return {call.id: facts_of(call.text) for call in self._span.calls}

    @cached_property
    def failed(self) -> frozenset[str]:
        """The ids of the calls whose results report a failure; "" is a text agent's action."""
        return frozenset(call for call, result in self._results.items() if has_failed(result))

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """Its attempts: one for each call, or its action as a whole."""
        span = self._span
        if not span.action:
            return ()
        if len(span.calls) > 1 and self._results:
            return tuple(Attempt.read(call.text, self._results.get(call.id, "")) for call in span.calls)
        return (Attempt.read(span.action, span.observation),)

    def named_in(self, text: str, topics: frozenset[str]) -> frozenset[str]:
        """Return which of these things a text of the step names: the user seldom names a new one between two events."""
        asked, known = self._named
        if asked != topics:
            self._named = topics, (known := {})
        if text not in known:
            known[text] = frozenset(topic for topic in topics if topic in text)
        return known[text]

    @cached_property
    def _results(self) -> Mapping[str, str]:
        span = self._span
        return results_by_call(span.messages, self._format) if span.calls else {"": span.observation}


class CallReading:
    """A call, with whether it only reads and which question it asks."""

    def __init__(self, call: Call) -> None:
        self.call = call

    @cached_property
    def only_reads(self) -> bool:
        """True if it only looks something up, by its name or the command that it runs."""
        return is_reading(self.call)

    @cached_property
    def question(self) -> str:
        """The plain words in it."""
        return prose_in(self.call.text)

    @cached_property
    def asked(self) -> frozenset[str]:
        """The words of its question."""
        return words_of(self.question)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call or an action, what it was about and whether it failed."""

    text: str
    words: str
    """Its text with all blanks alike."""
    tried: str
    """The tool or command."""
    aim: frozenset[str]
    """The facts that it was about."""
    failed: bool

    @classmethod
    def read(cls, text: str, result: str) -> Attempt:
        return cls(text, _collapsed(text), tried_in(text), aim_of(text), has_failed(result))


class FactOfStep(NamedTuple):
    """A fact in a step, or in what an earlier event left of it."""

    text: str
    done: bool
    """True if the step's action uses it."""
    written: bool
    """True if the agent wrote it, in a thought or an action."""
    shown: bool
    """True if a result shows it."""
    crowd: float
    """The log of the number of its neighbours in the results."""
    units: tuple[Unit, ...]
    """The passages and the record that hold it."""


class StepFacts:
    """The facts of a step by its parts: those of its record (0) and of each passage that is left."""

    def __init__(self, reading: StepReading, span: Span, outline: Outline | None) -> None:
        self._reading = reading
        self._span = span
        done, said = reading.done, reading.said
        if outline is None or not outline.passages:
            self._shown = facts_of(span.observation if outline is None else outline.results)
            self.units: Mapping[int, frozenset[str]] = {0: done | said | self._shown}
            return
        brief = facts_of(outline.results)
        units = {passage.number: passage.facts for passage in outline.passages}
        results = (units[passage.number] for passage in outline.passages if passage.role is Role.RESULT)
        self._shown = brief.union(*results)
        turn = done | said if outline.is_turn_whole else facts_of(outline.turn)
        self.units = {0: turn | brief, **units}

    @cached_property
    def facts(self) -> frozenset[str]:
        """The facts that the agent wrote, or that are shown."""
        return self._reading.done | self._reading.said | self._shown

    @cached_property
    def in_order(self) -> tuple[FactOfStep, ...]:
        """These facts, in an order that is the same in every process."""
        done, said, shown = self._reading.done, self._reading.said, self._shown
        holders, crowds = self._holders(), self._crowds()
        return tuple(
            FactOfStep(
                fact,
                fact in done,
                fact in done or fact in said,
                fact in shown,
                crowds[kind_of(fact)],
                holders.get(fact, ()),
            )
            for fact in sorted(self.facts)  # the order of a set changes from process to process
        )

    @cached_property
    def others(self) -> Mapping[str, tuple[Unit, ...]]:
        """Further strings in passages, of words that were cut apart or escaped, with those passages."""
        facts = self.facts
        return {fact: units for fact, units in self._holders().items() if fact not in facts}

    def _holders(self) -> dict[str, tuple[Unit, ...]]:
        """Return for each fact the parts that hold it, in their order."""
        found: dict[str, tuple[Unit, ...]] = {}
        for number, facts in self.units.items():
            unit = (self._span.index, number)
            alone = (unit,)
            for fact in facts:
                found[fact] = (*found[fact], unit) if fact in found else alone
        return found

    def _crowds(self) -> dict[Kind, float]:
        """Return the log of the number of neighbours in the observation, for a fact of each kind."""
        kinds = Counter(map(kind_of, self._shown))
        files = kinds[Kind.FILE]
        if files and files >= kinds[Kind.NAME] + kinds[Kind.ID]:  # a listing: everything in it is one of many
            return dict.fromkeys(Kind, math.log(len(self._shown)))
        return {kind: math.log(files) if kind is Kind.FILE and files else 0.0 for kind in Kind}


def _collapsed(text: str) -> str:
    return " ".join(text.split())
