"""Evidence: the facts that the actions of a recorded run needed of its past.

A *fact* that an action uses (see `facts.py`) is *evidence* when an earlier span gave it (its thought, action or
observation holds it) and nothing that always stays does: no system prompt, no word the user had said by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from ..types import History, Span
from ..wire import Kind, Part, wire_named
from .facts import arguments, facts_in, text_of
from .failures import repeated_failures
from .runs import Run, part_tokens


@dataclass(frozen=True, slots=True)
class Action:
    """One turn of the recorded agent."""

    span: int
    messages: int
    """The leading messages of the run it was made on."""
    uses: frozenset[str]
    """All facts in its arguments."""
    needs: frozenset[str]
    """Its evidence."""
    output_tokens: int
    """Tokens of the turn itself: `n_o`."""
    repeats: tuple[int, ...]
    """Earlier spans with the very same call, all of which failed as this one will; mostly none."""


class Evidence:
    """One run, its spans, and what each action needed."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.history: History = run.history()
        """All of the run."""
        self._texts = [text_of(span) for span in self.history.spans]
        self._used = [facts_in(arguments(span)) for span in self.history.spans]
        self._starts = _starts(self.history)

    @cached_property
    def facts(self) -> frozenset[str]:
        """Every fact that some action uses."""
        return frozenset[str]().union(*self._used)

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        """The turns at which the agent was asked with a history: all but a greeting before anybody spoke."""
        repeats = repeated_failures(self.history.spans)
        opening = next((place for place, fixed in enumerate(self._fixed) if not fixed.is_static), 0)
        found = []
        given: set[str] = set()
        for number, span in enumerate(self.history.spans):
            start, uses = self._starts[number], self._used[number]
            if start > opening:
                stays = self.always_there(start)
                needs = frozenset(fact for fact in uses & given if fact not in stays)
                output = sum(part_tokens(part) for part in self._parts(span) if part.kind is Kind.TURN)
                found.append(Action(span.index, start, uses, needs, output, repeats.get(span.index, ())))
            given |= {fact for fact in self.facts - given if fact in self._texts[number]}
        return tuple(found)

    def needed_after(self, messages: int) -> frozenset[str]:
        """The facts that actions after the first so many messages use and that only spans among those gave."""
        past = sum(start < messages for start in self._starts)
        given = "\n".join(self._texts[:past])
        stays = self.always_there(messages)
        later = frozenset[str]().union(*self._used[past:])
        return frozenset(fact for fact in later if fact in given and fact not in stays)

    def tokens_before(self, messages: int) -> int:
        """The size of the history in the first so many messages, system prompt excluded."""
        return self._sizes[messages]

    def span_tokens_before(self, span: int) -> int:
        """Tokens of the spans before this one."""
        return sum(one.tokens for one in self.history.spans[: span - 1])

    def results_of(self, span: int) -> frozenset[str]:
        """Return the texts that came back in a span."""
        parts = self._parts(self.history.spans[span - 1])
        return frozenset(part.text for part in parts if part.kind is not Kind.TURN and part.text)

    def words(self, messages: int) -> list[str]:
        """System prompts and the user's words among the first so many messages."""
        return [fixed.text for fixed in self._fixed[:messages] if fixed.text]

    def always_there(self, messages: int) -> str:
        return "\n".join(self.words(messages))

    def _parts(self, span: Span) -> list[Part]:
        wire = wire_named(self.history.format)
        return [part for message in span.messages for part in wire.read(message, 0)]

    @cached_property
    def _sizes(self) -> list[int]:
        wire = wire_named(self.history.format)
        parts = [wire.read(message, position) for position, message in enumerate(self.history.messages)]
        sizes = [sum(part_tokens(part) for part in some if not part.static) for some in parts]
        return [0, *accumulate(sizes)]

    @cached_property
    def _fixed(self) -> list[_Fixed]:
        """For each message, the words in it that belong to no span."""
        wire = wire_named(self.history.format)
        found = []
        for position, (message, owner) in enumerate(zip(self.history.messages, self.history.owners, strict=True)):
            parts = wire.read(message, position)
            if isinstance(owner, int):
                parts = parts if owner == 0 else ()
            else:
                parts = tuple(part for part in parts if part.blocks and owner[part.blocks[0]] == 0)
            found.append(_Fixed("\n".join(part.text for part in parts), any(part.static for part in parts)))
        return found


@dataclass(frozen=True, slots=True)
class _Fixed:
    text: str
    is_static: bool
    """A system prompt."""


def _starts(history: History) -> list[int]:
    """For each span, the place of its first message."""
    places: dict[int, int] = {}
    for place, owner in enumerate(history.owners):
        for index in (owner,) if isinstance(owner, int) else owner:
            places.setdefault(index, place)
    return [places[span.index] for span in history.spans]
