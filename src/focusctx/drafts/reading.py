"""One step of a history as the offline draft reads it: its facts, and its calls with their aims and outcomes.

A step does not change once it is complete, so each of these is read at most once, when it is first asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ..types import Call, Span, Unit
from ..wire import Role, results_by_call
from ..wire.calls import calls_of, has_failed, is_reading
from ..wire.part import join
from .facts import Kind, aim_of, facts_in, facts_of, form_of, is_record, kind_of, prose_in, tried_in, words_of

if TYPE_CHECKING:
    from ..pipeline.outline import Outline


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
