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
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import NamedTuple, TypeAlias

from ..types import History, Span, Unit
from ..wire import Role
from .reading import (
    Attempt,
    Kind,
    StepFacts,
    StepReading,
    details_in,
    facts_in,
    form_of,
    is_person,
    kind_of,
    topics_in,
    words_of,
)

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


class Fact(NamedTuple):
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
    readings, steps = _read_steps(history)
    spoken = _user_words(history)
    words = words_of(spoken)
    pinned = facts_in(_pinned_text(history)) | (steps[-1].facts if steps else frozenset())
    trails = _trails(history.spans, readings, steps)
    topics = _note_topics(trails, history, readings, steps)
    topical = sorted({unit for some in topics.values() for unit in some})
    near = _Nearness(history, words)
    by_index = zip((span.index for span in history.spans), steps, strict=True)
    units = {(index, number): facts for index, step in by_index for number, facts in step.units.items()}
    near.note(trails, units)
    used_forms = frozenset[str]().union(*(reading.used_forms for reading in readings))
    facts = _facts(trails, pinned, words, used_forms, history.newest)
    lists = _lists({unit: units[unit] for unit in topical}, _superseded(history.spans, readings))
    others = (*lists, *_answers(history, readings, words, near), *_details(history, near))
    failures = _standing_failures(history.spans, readings)
    return DataFlow((*facts, *others), failures, _still_of_use(topics, trails, units, history))


def _facts(
    trails: Mapping[str, _Trail],
    pinned: Collection[str],
    words: frozenset[str],
    used_forms: Collection[str],
    newest: int,
) -> Iterator[Fact]:
    """Yield the facts that could be lost, each with the chance that a later action uses it."""
    chance_of = cache(_Evidence.chance)  # most facts of a large result share their evidence
    for text, trail in trails.items():
        if not trail.holders or text in pinned:
            continue
        kind = kind_of(text)
        is_id = kind in _IDS  # the letters of an id mean nothing
        evidence = _Evidence(
            kind,
            trail.uses,
            trail.shows,
            trail.by_agent,
            trail.record,
            trail.crowd,
            newest - trail.last,
            trail.open,
            trail.settled,
            min(trail.near, 1) if kind is Kind.ID else 0,
            0.0 if is_id else _share_in(words, text),
            is_id and not trail.uses and form_of(text) in used_forms,
        )
        yield Fact(text, kind, chance_of(evidence), tuple(trail.holders))


class _Evidence(NamedTuple):
    """The evidence that decides the chance of a fact."""

    kind: Kind
    uses: int
    shows: int
    by_agent: bool
    record: bool
    crowd: float
    age: int
    """Spans since it last appeared."""
    open: bool
    settled: bool
    near: float
    in_goal: float
    """Share of its words that the user also used."""
    next: bool
    """True if it was not used yet and actions used others of its form."""

    def chance(self) -> float:
        """Return the probability that a later action uses the fact."""
        odds = _BASE + _WRITTEN * self.by_agent + _REUSED * math.log(max(self.uses, 1))
        odds += _SHOWN * math.log(max(self.shows, 1)) + _AGE * math.log(max(self.age, 1))
        odds += _BARE_NUMBER * (self.kind is Kind.NUMBER)
        odds += _RECORD * (self.record and self.kind in _IDS)
        odds += 0.0 if self.by_agent else _CROWD * self.crowd
        odds = odds + _TOPIC * self.open + _SETTLED * self.settled
        odds += _IN_GOAL * self.in_goal + _NEAR * self.near
        odds += _OPEN * self.next
        return 1 / (1 + math.exp(-odds))


class SharedFlow:
    """The data flow of a history, for several who need it: the first one reads it, and the others wait for that."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._flow: DataFlow | None = None
        self._reading = Lock()

    def read(self) -> DataFlow:
        with self._reading:
            if self._flow is None:
                self._flow = read_flow(self.history)
            return self._flow

    def forget(self) -> None:
        """Forget it at the end of an event: a draft may keep its prompts."""
        self._flow = None

    def __reduce__(self) -> tuple[type[SharedFlow], tuple[History]]:
        return SharedFlow, (self.history,)


def _read_steps(history: History) -> tuple[list[StepReading], list[StepFacts]]:
    """Return the facts of each step. Outlines, where there are some, remember them from one event to the next."""
    if history.outlines is not None:
        outlines = [history.outlines.of(span) for span in history.spans]
        return [outline.reading for outline in outlines], [outline.facts_by_part for outline in outlines]
    readings = [StepReading(span, history.format) for span in history.spans]
    return readings, [StepFacts(*both, None) for both in zip(readings, history.spans, strict=True)]


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


@dataclass(slots=True)
class _Trail:
    """The history of one fact over the spans."""

    holders: tuple[Unit, ...] | list[Unit] = ()
    """A list only from the second step on: most facts are in one step, and share the tuple of that step."""
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
    """Weight of the user's words around it: 0 if there are none."""

    def add_holders(self, units: tuple[Unit, ...]) -> None:
        if isinstance(self.holders, list):
            self.holders += units
        else:
            self.holders = [*self.holders, *units] if self.holders else units


def _trails(spans: Sequence[Span], readings: Sequence[StepReading], steps: Sequence[StepFacts]) -> dict[str, _Trail]:
    """Return every fact of the spans before the newest, with its evidence."""
    trails: dict[str, _Trail] = {}
    superseded = _superseded(spans, readings)
    for span, reading, step in zip(spans[:-1], readings, steps, strict=False):
        index, is_record, is_current = span.index, reading.is_record, span.index not in superseded
        for text, done, written, shown, crowd, units in step.in_order:
            trail = trails.get(text)
            if trail is None:
                trail = trails[text] = _Trail()
            trail.last = index
            if done:
                trail.uses += 1
                trail.used = index
            if written:
                trail.by_agent = True
            if shown:
                trail.shows += 1
                trail.record = trail.record or is_record
                trail.crowd = min(trail.crowd, crowd)
            if is_current:
                trail.add_holders(units)
        for text, units in step.others.items() if is_current else ():
            if text in trails:
                trails[text].add_holders(units)
    return trails


def _note_topics(
    trails: Mapping[str, _Trail], history: History, readings: Sequence[StepReading], steps: Sequence[StepFacts]
) -> dict[str, tuple[Unit, ...]]:
    """Note for each fact the things that the user named and it was looked up for.

    The user says "gather the answers to 'harvest'", a call asks for `/events/harvest.txt`, and what comes back is
    needed until something is written that has to do with it. So is what comes back when a call asks for a part of
    that: for a person on that list. Returns what came back for the things that are not settled yet.
    """
    if history.outlines is None:  # a whole step holds too much beside it
        return {}
    spoken = _user_words(history)
    topics = topics_in(spoken)
    if not topics:
        return {}
    settled = _settled(topics, history.spans, readings)
    in_order = sorted(topics - settled, key=lambda topic: (spoken.find(topic), topic))
    found: dict[str, list[Unit]] = {topic: [] for topic in in_order}
    for span, reading, step in zip(history.spans[:-1], readings, steps, strict=False):
        named = {call.id: reading.named_in(call.text, topics) for call in span.calls}
        about = {call.id: named[call.id] or _topics_of(reading.facts_of_calls[call.id], trails) for call in span.calls}
        calls = {passage.number: passage.call for passage in history.outlines.of(span).passages}
        alone = reading.named_in(span.action, topics) if len(span.calls) <= 1 else frozenset[str]()
        noted: list[tuple[frozenset[str], frozenset[str], frozenset[str]]] = []
        for number, facts in step.units.items():
            own = named.get(calls.get(number, ""), frozenset()) or alone
            reached = own or about.get(calls.get(number, ""), frozenset())
            for topic in reached - settled:
                found[topic].append((span.index, number))
            if reached:
                noted.append((facts, own, reached))
        for facts, own, reached in noted:  # not before: a step's calls were made before its results came
            is_open = bool(own - settled)
            for fact in facts:
                if fact in trails:
                    trails[fact].topics |= reached
                    trails[fact].open = trails[fact].open or is_open
    for trail in trails.values():
        trail.settled = bool(trail.topics) and trail.topics <= settled
    return {topic: tuple(some) for topic, some in found.items() if some}


def _topics_of(facts: Collection[str], trails: Mapping[str, _Trail]) -> frozenset[str]:
    """Return the things for which what a call names was looked up."""
    return frozenset[str]().union(*(trails[fact].topics for fact in facts if fact in trails))


def _settled(topics: frozenset[str], spans: Sequence[Span], readings: Sequence[StepReading]) -> frozenset[str]:
    """Return the topics that something was done about, and after that something else."""
    last: dict[str, int] = {}
    newest = 0
    for span, reading in zip(spans, readings, strict=True):
        for call in reading.calls:
            if not call.only_reads:
                newest = span.index
                last |= dict.fromkeys(reading.named_in(call.call.text, topics), span.index)
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


class _Nearness:
    """The user's words in each passage of a result. A word counts for less the more passages have it.

    There are none for whole steps, which hold too much beside each other.
    """

    def __init__(self, history: History, words: frozenset[str]) -> None:
        self.spoken: dict[Unit, frozenset[str]] = {
            (span.index, passage.number): words & passage.words
            for span in history.spans[:-1]
            for passage in (history.outlines.of(span).passages if history.outlines else ())
            if passage.role is Role.RESULT
        }
        self._common = Counter(word for found in self.spoken.values() for word in found)

    def note(self, trails: Mapping[str, _Trail], units: Mapping[Unit, frozenset[str]]) -> None:
        """Note for each fact how much the user spoke of what is around it: "the lamp", and the id is that of a lamp.

        `units` are the facts of each passage.
        """
        most = math.log(len(self.spoken) + 1)
        for unit, found in self.spoken.items():
            if not found:
                continue
            # Summed exactly, so that the order of the set does not matter.
            near = math.fsum(1 - math.log(self._common[word]) / most for word in found)
            for fact in units[unit]:
                if fact in trails:
                    trails[fact].near = max(trails[fact].near, near)

    def weight(self, unit: Unit, words: frozenset[str]) -> float:
        """Return how much these words of the user say about a passage that has some of them."""
        have = words & self.spoken[unit]
        return math.fsum(math.log(1 + len(self.spoken) / self._common[word]) for word in have)

    def share(self, unit: Unit) -> float:
        """Return how much of what the user spoke of is in a passage and hardly anywhere else."""
        return math.fsum(1 / self._common[word] for word in self.spoken[unit])


def _answers(
    history: History, readings: Sequence[StepReading], words: frozenset[str], near: _Nearness
) -> Iterator[Fact]:
    """Yield what calls asked for and the user, too, held by the passages that say most about it.

    An answer in plain words has no id that a later action could use, but is needed as long as the question is open.
    """
    fewest, share = _ASKED
    outlines = history.outlines
    for span, reading in zip(history.spans[:-1], readings, strict=False) if outlines else ():
        passages = outlines.of(span).passages if outlines else ()
        for call in reading.calls:
            shared = call.asked & words
            if len(shared) < max(fewest, share * len(call.asked)) or not call.only_reads:
                continue
            units = [(span.index, one.number) for one in passages if one.call in (call.call.id, "")]
            values = {
                unit: _RANK**rank * near.weight(unit, shared)
                for rank, unit in enumerate(unit for unit in units if unit in near.spoken)
            }
            most = max(values.values(), default=0.0)
            for unit, value in values.items() if len(values) > 1 and most else ():
                chance = _ANSWER * (value / most) ** 2 * len(shared) / len(call.asked)
                yield Fact(f'what was found on "{call.question}"', Kind.ANSWER, chance, (unit,))


def _lists(units: Mapping[Unit, frozenset[str]], superseded: Collection[int]) -> Iterator[Fact]:
    """Yield the lists of people among results that were looked up for something the user named.

    Each of them may stand elsewhere, too; that they are all of them is said only there.
    """
    for unit, facts in units.items():
        people = sum(map(is_person, facts))
        if unit[0] not in superseded and people >= _MEMBERS:
            yield Fact("the members of a list", Kind.DETAIL, _LIST, (unit,))


def _details(history: History, near: _Nearness) -> Iterator[Fact]:
    """Yield what the passages of results hold beside facts: amounts, times, names that are one word.

    A cell of a table or a line of a letter is no fact, but is often needed while the agent is at it, and later if it
    is about what the user spoke of.
    """
    each, most = _DETAILS
    known = {*details_in(_pinned_text(history))}
    for span in reversed(history.spans[:-1] if history.outlines else ()):
        recent = _FADES ** (history.newest - span.index - 1)
        for passage in history.outlines.of(span).passages if history.outlines else ():
            if passage.role is Role.RESULT and (new := passage.details - known):
                known |= new
                unit = (span.index, passage.number)
                chance = min(each * len(new) * max(recent, min(near.share(unit), 1)), most)
                if chance > each / 10:
                    yield Fact("details", Kind.DETAIL, chance, (unit,))


def _superseded(spans: Sequence[Span], readings: Sequence[StepReading]) -> frozenset[int]:
    """Return the spans whose exact action was repeated later: the later result is the current one."""
    actions = [(reading.action, span) for span, reading in zip(spans, readings, strict=True)]
    latest = {action: span.index for action, span in actions}
    return frozenset(span.index for action, span in actions if span.action and latest[action] != span.index)


def _standing_failures(spans: Sequence[Span], readings: Sequence[StepReading]) -> dict[int, str]:
    """Return the failures before the newest span after which the same thing was not tried again."""
    standing: dict[tuple[int, str], Attempt] = {}
    alike: defaultdict[_Mark, set[tuple[int, str]]] = defaultdict(set)
    for span, reading in zip(spans, readings, strict=True):
        for attempt in reading.attempts:
            shared = Counter(key for fact in attempt.aim for key in alike.get((attempt.tried, fact, True), ()))
            retried = [key for key, times in shared.items() if 2 * times >= len(standing[key].aim)]
            retried += alike.get((attempt.tried, attempt.words, False), ())
            for key in retried:
                if key[0] != span.index:
                    for mark in _marks(standing.pop(key)):
                        alike[mark].discard(key)
            if span is not spans[-1] and attempt.failed:
                key = span.index, attempt.text
                standing[key] = attempt
                for mark in _marks(attempt):
                    alike[mark].add(key)
    return {index: attempt.tried for (index, _), attempt in standing.items()}


_Mark: TypeAlias = tuple[str, str, bool]
"""A tool and a fact that a call of it was about (True), or the words of the call (False)."""


def _marks(attempt: Attempt) -> list[_Mark]:
    """Return the marks of a later attempt at the same thing: the facts of this one, or its words if it has none."""
    if attempt.aim:
        return [(attempt.tried, fact, True) for fact in attempt.aim]
    return [(attempt.tried, attempt.words, False)]
