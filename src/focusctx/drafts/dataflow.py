"""Estimate from a history's data flow which names, paths and ids later steps will use.

No language model is used. A fact is a string that an agent has to reproduce exactly. Where it appeared, who wrote it,
how often it was used and how many other facts surround it are small pieces of evidence; added up, they give the
chance that a later action uses it. `docs/offline-draft.md` says how the weights were found.

A set of passages and records is worth the number of facts in it that the future is expected to need. A step is offered
as a record, which says what was done and how it ended, and each of its passages beside the record.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from ..types import History, Span, Unit
from ..wire import Role, results_by_call
from ..wire.calls import calls_of, has_failed, is_reading

_TOKEN = re.compile(r"[#~./]*\w[\w./@+-]*")
_ESCAPE = re.compile(r'\\+[nrt"]')  # arguments arrive as JSON text: "\nimport" is not a name
_CAMEL = re.compile(r"[a-z][A-Z]")
_LABEL = re.compile(r"s_?\d+", re.IGNORECASE)  # looks like a span's own label
_PERSON = re.compile(r"\b[A-Z][a-z]+(?:[ -][A-Z][a-z]+)+\b")
_QUOTED = re.compile(r"""['"`]([^'"`\n]{3,60})['"`]""")
_NUMBER = re.compile(r"[\d.+-]+")
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


_IDS = frozenset({Kind.ID, Kind.NUMBER})
_HANDLES = frozenset({Kind.ID, Kind.FILE})
"""Kinds of facts that calls take to get at something."""

# Weights of the evidence: each adds to the log-odds that a later action uses a fact.
_BASE = -3.1
_BARE_NUMBER = -1.6  # a bare number: sizes, dates and line numbers are common
_WRITTEN = 2.0  # the agent wrote it itself, in a thought or an action
_REUSED = 1.4  # times log(actions that used it): a fact used twice is used again
_SHOWN = 0.4  # times log(results that show it): what tools say again and again identifies something
_AGE = -0.15  # times log(spans since it last appeared)
_IN_GOAL = 0.75  # times the share of its words that the user also used
_RECORD = 1.5  # an id or number in structured data: tools take these as arguments
_TOPIC = 1.6  # it came back from a call about something the user named, and nothing was done about that yet
_SETTLED = -1.5  # all that it was looked up for is settled
_NEAR = 0.7  # an id or number beside words of the user that hardly anything else has beside it
_OPEN = 0.7  # an unused id of a form that actions used: the next member of a set
_CROWD = -0.7  # times log(neighbours), for files among files: hardly one of a long listing is needed

_ANSWER = 0.9
"""Chance that the passage that says most about a question of the user is needed."""
_RANK = 0.8
"""Factor for each passage before it: searches give the best result first."""
_DETAIL = re.compile(r"\b\d[\d:.,/%-]*|(?<=[a-z0-9,;:|] )[A-Z][a-z]+\b")
"""A number, a time, a date, or a name in the middle of a sentence."""
_DETAILS = 0.01, 0.1
"""Chance that a new detail in the newest results is needed, and the most for all those of one passage."""
_FEW = 2
"""Most passages of one result that are cited as a part of what the user named: more is a result to choose from."""
_FADES = 0.8
"""Factor for each span since."""
_MEMBERS, _LIST = 3, 0.3
"""Fewest people on a list, and the chance that it is needed if it was looked up for something the user named."""
_ASKED = 3, 0.6
"""Fewest words that a call and the user must share, and smallest share of the call's words, to ask the same thing."""
FAILURE_CHANCE = 0.3
"""Chance that an unresolved failure would be repeated if forgotten. It is between the chance of a name that the agent
used once and one it used twice: cheap failures fit in, a screenful of traceback does not crowd out what the plan
needs."""


@dataclass(frozen=True, slots=True)
class Fact:
    text: str
    kind: Kind
    chance: float
    """Probability that a later action uses it."""
    holders: tuple[Unit, ...]
    """Passages and records that hold it, oldest first; never the newest span, which is always kept."""


@dataclass(frozen=True, slots=True)
class DataFlow:
    facts: tuple[Fact, ...]
    failures: Mapping[int, str]
    """Spans whose attempt failed with no later attempt at the same thing, and the tool or command tried."""
    topics: Mapping[str, tuple[Unit, ...]] = field(default_factory=dict)
    """Things the user named that are not settled, in the user's order, with the passages looked up for them."""


def read_flow(history: History) -> DataFlow:
    """Return the facts that could be lost (those that no pinned text holds) and the unresolved failures."""
    steps = [_Step.read(span, history) for span in history.spans]
    words = words_of(_user_words(history))
    pinned = facts_in(_pinned_text(history)) | (steps[-1].facts if steps else frozenset())
    trails = _trails(history.spans, steps)
    topics = _note_topics(trails, history, steps)
    topical = {unit for some in topics.values() for unit in some}
    around = _words_of_passages(history)
    by_index = zip((span.index for span in history.spans), steps, strict=True)
    units = {(index, number): facts for index, step in by_index for number, facts in step.units.items()}
    _note_words(trails, units, {unit: words & found for unit, found in around.items()})
    used_forms = {_form(fact) for step in steps for fact in step.done if kind_of(fact) is not Kind.NAME}
    facts = []
    for text, trail in trails.items():
        if not trail.holders or text in pinned:
            continue
        kind = kind_of(text)
        odds = trail.odds(kind, history.newest) + _TOPIC * trail.open + _SETTLED * trail.settled
        if kind not in _IDS:  # the letters of an id mean nothing
            odds += _IN_GOAL * _share_in(words, text)
        else:
            odds += _NEAR * min(trail.near, 1) * (kind is Kind.ID)
            odds += _OPEN * (not trail.uses and _form(text) in used_forms)
        chance = 1 / (1 + math.exp(-odds))
        facts.append(Fact(text, kind, chance, tuple(trail.holders)))
    lists = _lists({unit: units[unit] for unit in sorted(topical)}, _superseded(history.spans))
    others = (*lists, *_answers(history, words, around), *_details(history, words, around))
    return DataFlow((*facts, *others), _standing_failures(history), _still_of_use(topics, trails, units, history))


class Worth:
    """The expected number of needed facts; one that two passages hold counts once."""

    def __init__(self, flow: DataFlow, bonus: Mapping[Unit, float] | None = None) -> None:
        together: defaultdict[tuple[Unit, ...], float] = defaultdict(float)
        for fact in flow.facts:
            together[fact.holders] += fact.chance
        for index in flow.failures:
            together[((index, 0),)] += FAILURE_CHANCE
        for unit, extra in (bonus or {}).items():
            together[(unit,)] += extra
        self._weights = list(together.values())
        self.groups: defaultdict[Unit, list[int]] = defaultdict(list)
        """Groups of facts that each unit holds; facts with the same holders are one group."""
        for group, holders in enumerate(together):
            for unit in holders:
                self.groups[unit].append(group)

    def of(self, units: Iterable[Unit]) -> float:
        return self._total(sorted({group for unit in units for group in self.groups[unit]}))

    def added_by(self, units: Iterable[Unit], held: Counter[int]) -> float:
        """Return the value that these units add; `held` counts, for each group, the units that hold it already."""
        return self._total({group for unit in units for group in self.groups[unit] if not held[group]})

    def held_by(self, units: Iterable[Unit]) -> Counter[int]:
        return Counter(group for unit in units for group in self.groups[unit])

    def _total(self, groups: Iterable[int]) -> float:
        return sum(self._weights[group] for group in groups)


def take_best(
    worth: Worth,
    costs: Mapping[Unit, int],
    room: float,
    *,
    thrift: float = 1.0,
    have: Iterable[Unit] = (),
    least: float = 0.0,
) -> frozenset[Unit]:
    """Repeatedly take the unit with the highest gain / cost^thrift while there is room, beside those we `have`.

    A passage brings its record along. Units that add less than `least` per token are left. Gains only shrink as units
    are taken, so an earlier gain is an upper bound and only the top one is computed again; where a record is taken, its
    passages get cheaper and are offered again.
    """
    held = worth.held_by(have)
    taken = {*have}
    passages: defaultdict[int, list[Unit]] = defaultdict(list)
    # Units without groups add nothing, and room only shrinks.
    offered = [unit for unit, cost in costs.items() if cost <= room and unit not in taken and worth.groups.get(unit)]
    for unit in offered:
        if unit[1]:
            passages[unit[0]].append(unit)
    before = frozenset(taken)

    def bundle(unit: Unit) -> list[Unit]:
        record = (unit[0], 0)
        return [unit] if record in taken or unit == record or record not in costs else [record, unit]

    def ranked(unit: Unit) -> tuple[float, Unit]:
        cost = max(sum(costs[one] for one in bundle(unit)), 1)
        gain = worth.added_by(bundle(unit), held)
        return (-gain / cost**thrift if gain >= least * cost else 0.0), (-unit[0], unit[1])

    queue = [ranked(unit) for unit in offered]
    heapq.heapify(queue)
    while queue:
        score, (index, number) = heapq.heappop(queue)
        unit = (-index, number)
        if score == 0 or unit in taken:
            continue
        fresh = ranked(unit)
        if queue and fresh > queue[0]:
            heapq.heappush(queue, fresh)
            continue
        more = bundle(unit)
        cost = sum(costs[one] for one in more)
        if fresh[0] == 0 or cost > room:
            continue
        room -= cost
        for one in more:
            taken.add(one)
            held.update(worth.groups[one])
        if more[0][1] == 0:
            for passage in passages[unit[0]]:
                if passage not in taken:
                    heapq.heappush(queue, ranked(passage))
    return frozenset(taken - before)


def is_plain(text: str) -> bool:
    """True if a text holds no fact, and no amount, time or name in the middle of a sentence."""
    return _DETAIL.search(text) is None and not facts_in(text)


def details_in(text: str) -> frozenset[str]:
    """Return the amounts, times, dates, and names of one word in the middle of a sentence."""
    return frozenset(_DETAIL.findall(text))


def facts_in(text: str) -> frozenset[str]:
    """Return the strings in a text that have to be exact: paths, ids, numbers, joined names, names of people."""
    found = {fact for token in set(_TOKEN.findall(text)) if (fact := _as_fact(token))}
    return frozenset(found.union(_PERSON.findall(text)))


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


@lru_cache(maxsize=2**16)
def kind_of(fact: str) -> Kind:
    if _FILE.search(fact):
        return Kind.FILE
    digits = sum(map(str.isdigit, fact))
    if digits < _ID_DIGITS and _NUMBER.fullmatch(fact):
        return Kind.NUMBER
    return Kind.ID if digits else Kind.NAME


def facts_of(text: str) -> frozenset[str]:
    """Return the facts of calls and results: without the names of JSON fields, which tell nothing of the task."""
    fields = {field for field in _KEY.findall(text) if not any(map(str.isdigit, field))}
    return facts_in(_ESCAPE.sub(" ", text)) - fields


@lru_cache(maxsize=2**16)
def _form(fact: str) -> str:
    """Return the form of a fact: `#W3220203` and `#W9311069` have the same one."""
    return re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", fact))


def words_of(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))


def _share_in(words: frozenset[str], fact: str) -> float:
    """Return the share of a name's words that the user also used."""
    own = words_of(fact)
    return len(own & words) / len(own) if own else 0.0


def _user_words(history: History) -> str:
    return "\n".join([history.goal, *(turn.text for turn in history.user_turns)])


def _pinned_text(history: History) -> str:
    """Return the text that is never dropped, without the newest span."""
    frame = (
        message["content"]
        for message, owner in zip(history.messages, history.owners, strict=False)
        if owner == 0 and isinstance(message.get("content"), str)
    )
    return "\n".join([_user_words(history), *frame])


@dataclass(frozen=True, slots=True)
class _Step:
    """The facts of one span, in its action (`done`), thought (`said`) and observation (`shown`)."""

    done: frozenset[str]
    said: frozenset[str]
    shown: frozenset[str]
    record: bool
    """True if the observation is structured data."""
    units: Mapping[int, frozenset[str]]
    """The facts of its record (0) and of each passage."""

    @classmethod
    def read(cls, span: Span, history: History) -> _Step:
        done, said = facts_of(span.action), facts_in(span.thought)
        record = _RECORD_START.match(span.observation) is not None
        outline = history.outlines.of(span) if history.outlines else None
        if outline is None or not outline.passages:
            shown = facts_of(span.observation if outline is None else outline.results)
            return cls(done, said, shown, record, {0: done | said | shown})
        brief = facts_of(outline.results)
        units = {passage.number: passage.facts for passage in outline.passages}
        results = (units[passage.number] for passage in outline.passages if passage.role is Role.RESULT)
        shown = brief.union(*results)
        turn = done | said if outline.is_turn_whole else facts_of(outline.turn)
        return cls(done, said, shown, record, {0: turn | brief, **units})

    @property
    def facts(self) -> frozenset[str]:
        return self.done | self.said | self.shown

    def crowds(self) -> dict[Kind, float]:
        """Return the log of the number of neighbours in the observation, for a fact of each kind."""
        kinds = Counter(map(kind_of, self.shown))
        files = kinds[Kind.FILE]
        if files and files >= kinds[Kind.NAME] + kinds[Kind.ID]:  # a listing: everything in it is one of many
            return dict.fromkeys(Kind, math.log(len(self.shown)))
        return {kind: math.log(files) if kind is Kind.FILE and files else 0.0 for kind in Kind}


@dataclass(slots=True)
class _Trail:
    """The history of one fact over the spans."""

    holders: list[Unit] = field(default_factory=list)
    uses: int = 0
    shows: int = 0
    by_agent: bool = False
    record: bool = False
    crowd: float = math.inf
    """The smallest crowd in which it was seen; finite for facts that the agent did not write."""
    last: int = 0
    used: int = 0
    """The last span whose action used it."""
    topics: frozenset[str] = frozenset()
    """Things the user named that it was looked up for, directly or for a part of them."""
    open: bool = False
    """True if it was looked up directly for something that is not settled."""
    settled: bool = False
    """True if all that it was looked up for is settled."""
    near: float = 0.0
    """How much the user spoke of what is around it: from 0, not at all, up."""

    def odds(self, kind: Kind, newest: int) -> float:
        odds = _BASE + _WRITTEN * self.by_agent + _REUSED * math.log(max(self.uses, 1))
        odds += _SHOWN * math.log(max(self.shows, 1)) + _AGE * math.log(max(newest - self.last, 1))
        odds += _BARE_NUMBER * (kind is Kind.NUMBER)
        odds += _RECORD * (self.record and kind in _IDS)
        odds += 0.0 if self.by_agent else _CROWD * self.crowd
        return odds


def _trails(spans: Sequence[Span], steps: Sequence[_Step]) -> dict[str, _Trail]:
    """Return every fact of the spans before the newest, with its evidence."""
    trails: dict[str, _Trail] = {}
    superseded = _superseded(spans)
    for span, step in zip(spans[:-1], steps, strict=False):
        crowds = step.crowds()
        for fact in sorted(step.facts):  # the order of a set changes from process to process
            trail = trails.setdefault(fact, _Trail())
            trail.last = span.index
            if fact in step.done:
                trail.uses += 1
                trail.used = span.index
            written = fact in step.done or fact in step.said
            trail.by_agent = trail.by_agent or written
            if fact in step.shown:
                trail.shows += 1
                trail.record = trail.record or step.record
                trail.crowd = min(trail.crowd, crowds[kind_of(fact)])
        if span.index not in superseded:
            for number, facts in step.units.items():
                for fact in facts:
                    if fact in trails:
                        trails[fact].holders.append((span.index, number))
    return trails


def _note_topics(trails: Mapping[str, _Trail], history: History, steps: Sequence[_Step]) -> dict[str, tuple[Unit, ...]]:
    """Note for each fact the things that the user named and it was looked up for.

    The user says "gather the answers to 'harvest'", a call asks for `/events/harvest.txt`, and what comes back is
    needed until something is written that has to do with it. So is what comes back when a call asks for a part of
    that: for a person on that list. Returns what came back for the things that are not settled yet.
    """
    if history.outlines is None:  # a whole step holds too much beside it
        return {}
    spoken = _user_words(history)
    topics = frozenset(_QUOTED.findall(spoken)) | facts_in(spoken)
    settled = _settled(topics, history.spans)
    in_order = sorted(topics - settled, key=lambda topic: (spoken.find(topic), topic))
    found: dict[str, list[Unit]] = {topic: [] for topic in in_order}
    for span, step in zip(history.spans[:-1], steps, strict=False):
        named = {call.id: _named_in(call.text, topics) for call in span.calls}
        about = {call.id: named[call.id] or _topics_of(call.text, trails) for call in span.calls}
        calls = {passage.number: passage.call for passage in history.outlines.of(span).passages}
        alone = _named_in(span.action, topics) if len(span.calls) <= 1 else frozenset[str]()
        noted: list[tuple[str, frozenset[str], frozenset[str]]] = []
        for number, facts in step.units.items():
            own = named.get(calls.get(number, ""), frozenset()) or alone
            reached = own or about.get(calls.get(number, ""), frozenset())
            for topic in reached - settled:
                found[topic].append((span.index, number))
            noted += ((fact, own, reached) for fact in facts if fact in trails)
        for fact, own, reached in noted:  # not before: a step's calls were made before its results came
            trails[fact].topics |= reached
            trails[fact].open = trails[fact].open or bool(own - settled)
    for trail in trails.values():
        trail.settled = bool(trail.topics) and trail.topics <= settled
    return {topic: tuple(some) for topic, some in found.items() if some}


def _named_in(text: str, topics: Collection[str]) -> frozenset[str]:
    """Return the things the user named that a call names, too."""
    return frozenset(topic for topic in topics if topic in text)


def _topics_of(text: str, trails: Mapping[str, _Trail]) -> frozenset[str]:
    """Return the things for which what a call names was looked up."""
    return frozenset[str]().union(*(trails[fact].topics for fact in facts_of(text) if fact in trails))


def _settled(topics: Collection[str], spans: Sequence[Span]) -> frozenset[str]:
    """Return the topics that something was done about, and after that something else."""
    last: dict[str, int] = {}
    newest = 0
    for span in spans:
        for call in calls_of(span):
            if not is_reading(call):
                newest = span.index
                last |= dict.fromkeys(_named_in(call.text, topics), span.index)
    return frozenset(topic for topic, at in last.items() if at < newest)


def _still_of_use(
    topics: Mapping[str, Sequence[Unit]],
    trails: Mapping[str, _Trail],
    units: Mapping[Unit, frozenset[str]],
    history: History,
) -> dict[str, tuple[Unit, ...]]:
    """Return for each topic the passages that say something nobody has acted upon.

    A list of mails has served when the mails were read; what they said has not.
    """
    outlines = history.outlines
    if outlines is None:
        return {}
    passages = {
        (span.index, passage.number): passage for span in history.spans for passage in outlines.of(span).passages
    }

    def is_of_use(unit: Unit) -> bool:
        passage = passages.get(unit)
        if passage is None or passage.is_plain or passage.role is not Role.RESULT:
            return False
        return not any(trails[one].used > unit[0] for one in units[unit] if one in trails and kind_of(one) in _HANDLES)

    found = {}
    for topic, some in topics.items():
        left = [unit for unit in some if is_of_use(unit)]
        sizes = Counter((unit[0], passages[unit].call) for unit in left)
        if few := tuple(unit for unit in left if sizes[unit[0], passages[unit].call] <= _FEW):
            found[topic] = few
    return found


def _words_of_passages(history: History) -> dict[Unit, frozenset[str]]:
    """Return the words of each passage of a result; none for whole steps, which hold too much beside each other."""
    return {
        (span.index, passage.number): passage.words
        for span in history.spans[:-1]
        for passage in (history.outlines.of(span).passages if history.outlines else ())
        if passage.role is Role.RESULT
    }


def _note_words(
    trails: Mapping[str, _Trail], units: Mapping[Unit, frozenset[str]], spoken: Mapping[Unit, frozenset[str]]
) -> None:
    """Note for each fact how much the user spoke of what is around it: "the lamp", and the id is that of a lamp.

    `units` are the facts of each passage, `spoken` the user's words in it. A word counts for less the more passages
    have it.
    """
    common = Counter(word for found in spoken.values() for word in found)
    most = math.log(len(spoken) + 1)
    for unit, found in spoken.items():
        near = math.fsum(1 - math.log(common[word]) / most for word in found)  # the same in whatever order they come
        for fact in units[unit]:
            if fact in trails:
                trails[fact].near = max(trails[fact].near, near)


def _answers(history: History, words: frozenset[str], around: Mapping[Unit, frozenset[str]]) -> Iterator[Fact]:
    """Yield what calls asked for and the user, too, held by the passages that say most about it.

    An answer in plain words has no id that a later action could use, but is needed as long as the question is open.
    """
    common = Counter(word for found in around.values() for word in found)
    weight = {word: math.log(1 + len(around) / times) for word, times in common.items()}
    fewest, share = _ASKED
    outlines = history.outlines
    for span in history.spans[:-1] if outlines else ():
        passages = outlines.of(span).passages if outlines else ()
        for call in calls_of(span):
            question = " ".join(_PROSE.findall(call.text))
            asked = words_of(question)
            shared = asked & words
            if len(shared) < max(fewest, share * len(asked)) or not is_reading(call):
                continue
            units = [(span.index, one.number) for one in passages if one.call in (call.id, "")]
            values = {
                unit: _RANK**rank * math.fsum(weight[word] for word in shared & around[unit])
                for rank, unit in enumerate(unit for unit in units if unit in around)
            }
            most = max(values.values(), default=0.0)
            for unit, value in values.items() if len(values) > 1 and most else ():
                chance = _ANSWER * (value / most) ** 2 * len(shared) / len(asked)
                yield Fact(f'what was found on "{question}"', Kind.ANSWER, chance, (unit,))


def _lists(units: Mapping[Unit, frozenset[str]], superseded: Collection[int]) -> Iterator[Fact]:
    """Yield the lists of people among results that were looked up for something the user named.

    Each of them may stand elsewhere, too; that they are all of them is said only there.
    """
    for unit, facts in units.items():
        people = sum(_PERSON.fullmatch(fact) is not None for fact in facts)
        if unit[0] not in superseded and people >= _MEMBERS:
            yield Fact("the members of a list", Kind.DETAIL, _LIST, (unit,))


def _details(history: History, words: frozenset[str], around: Mapping[Unit, frozenset[str]]) -> Iterator[Fact]:
    """Yield what the passages of results hold beside facts: amounts, times, names that are one word.

    A cell of a table or a line of a letter is no fact, but is often needed while the agent is at it, and later if it
    is about what the user spoke of.
    """
    each, most = _DETAILS
    known = {*details_in(_pinned_text(history))}
    common = Counter(word for found in around.values() for word in found)
    for span in reversed(history.spans[:-1] if history.outlines else ()):
        recent = _FADES ** (history.newest - span.index - 1)
        for passage in history.outlines.of(span).passages if history.outlines else ():
            if passage.role is Role.RESULT and (new := passage.details - known):
                known |= new
                unit = (span.index, passage.number)
                near = math.fsum(1 / common[word] for word in words & around[unit])
                chance = min(each * len(new) * max(recent, min(near, 1)), most)
                if chance > each / 10:
                    yield Fact("details", Kind.DETAIL, chance, (unit,))


def _superseded(spans: Sequence[Span]) -> frozenset[int]:
    """Return the spans whose exact action was repeated later: the later result is the current one."""
    latest = {_collapsed(span.action): span.index for span in spans}
    return frozenset(span.index for span in spans if span.action and latest[_collapsed(span.action)] != span.index)


def _collapsed(text: str) -> str:
    return " ".join(text.split())


def _standing_failures(history: History) -> dict[int, str]:
    """Return the failures before the newest span after which the same thing was not tried again."""
    standing: dict[tuple[int, str], tuple[str, frozenset[str]]] = {}
    for span in history.spans:
        if not span.action:
            continue
        results = results_by_call(span.messages, history.format) if len(span.calls) > 1 else {}
        attempts = [(call.text, results.get(call.id, "")) for call in span.calls] if results else None
        for text, result in attempts or [(span.action, span.observation)]:
            tried = _tried(text)
            aim = facts_in(_ESCAPE.sub(" ", text)) - {tried, *_KEY.findall(text)}
            for (index, before), (what, wanted) in list(standing.items()):
                is_retry = _same_aim(wanted, aim) if wanted else _collapsed(before) == _collapsed(text)
                if what == tried and index != span.index and is_retry:
                    del standing[index, before]
            if span is not history.spans[-1] and has_failed(result):
                standing[span.index, text] = tried, aim
    return {index: tried for (index, _), (tried, _) in standing.items()}


def _tried(action: str) -> str:
    """Return the tool or command that an action starts with."""
    token = _TOKEN.search(_FENCE.sub(" ", action))
    return token[0][:_LONGEST].rstrip("./+-@") if token else "the action"


def _same_aim(earlier: frozenset[str], later: frozenset[str]) -> bool:
    """True if a later call of the same tool is about the same things."""
    return 2 * len(earlier & later) >= len(earlier)
