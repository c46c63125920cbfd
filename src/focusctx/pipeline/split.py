"""Step 1, split: a message list becomes a goal, the user's words and numbered spans.

The reader goes through the messages once, from the left, and remembers its place: a history that grew by one step costs
one step. No decision about a message depends on the messages after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ..config import FocusConfig
from ..errors import MessageError
from ..types import History, Message, Owner, Span, UserTurn
from ..wire import Kind, Part, Wire, recognise, shown_by, wire_named
from ..wire.foreign import advice_for, not_understood
from ..wire.part import join, kind_of, unmarked
from ..wire.react import Reading, TextRun
from .open_span import OpenSpan
from .outline import Outlines, message_tokens
from .plain import plain_message

Count = Callable[[str], int]

_MAPPINGS = (dict, Mapping)
"""`dict` first: checking for it is fast, checking for `Mapping` is slow."""
_LISTS = (list, tuple)
_AS_LIST = ": pass list(messages), since a history is read more than once"


def read_history(
    messages: Sequence[Message],
    config: FocusConfig,
    count: Count,
    *,
    format: str | None = None,
    goal: str | None = None,
) -> History:
    """Read a message list into a history."""
    check_list(messages)
    reader = Reader(wire_named(format) if format else recognise(map(plain_message, messages)), config, count)
    reader.extend(messages)
    return reader.history(goal)


def measure(history: History, count: Count) -> History:
    """Count the tokens of a history made of explicit spans, for agents with no chat format."""
    indices = [0, *(span.index for span in history.spans)]
    for before, index in pairwise(indices):
        if index <= before:
            raise MessageError(f"span index {index} after {before}: spans are numbered from 1, rising")
    spans = tuple(
        span if span.tokens else replace(span, tokens=sum(map(count, (span.thought, span.action, span.observation))))
        for span in history.spans
    )
    held = [(message, span.index) for span in spans for message in span.messages]
    return replace(
        history,
        spans=spans,
        messages=tuple(message for message, _ in held),
        owners=tuple(index for _, index in held),
        tokens=sum(span.tokens for span in spans) + sum(count(turn.text) for turn in history.user_turns),
    )


def tokens_of(message: Message, wire: Wire, count: Count) -> int:
    """Tokens that a message adds to its history, independent of the messages before it."""
    return message_tokens(plain_message(message), wire, count)


def check_list(messages: object, start: int = 0) -> None:
    """Raise a MessageError that describes the input unless it is a message list; check from `start` on."""
    if isinstance(messages, Mapping) and not {"messages", "contents"}.isdisjoint(messages):
        raise MessageError("got a whole request; pass its 'messages' (or 'input', or 'contents') list")
    if not isinstance(messages, list | tuple):
        advice = "" if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable) else _AS_LIST
        raise MessageError(f"expected a list of messages, got {kind_of(messages)}{advice}")
    for position, message in enumerate(messages[start:], start):
        if not isinstance(message, Mapping) and not hasattr(message, "model_dump"):
            raise MessageError(f"expected a dict, got {kind_of(message)}", position)


class Reader:
    """Reads a growing history, each message once. A `watched` reader notices edits in place."""

    def __init__(self, wire: Wire, config: FocusConfig, count: Count, *, watched: bool = False) -> None:
        self.wire = wire
        self.messages: list[Message] = []
        """The messages read so far, as plain data."""
        self.sizes: list[int] = []
        """Tokens of each message that count against the budget."""
        self._given: list[Message] = []  # as the caller gave them, SDK objects included
        self._objects: dict[int, Message] = {}  # position → plain form, if the two differ
        self._values: list[list[object]] | None = [] if watched else None
        self._config = config
        self._count = count
        self._outlines = Outlines(wire.name, count, config.reads) if config.levels else None
        self.owners: list[Owner] = []
        self._spans: list[Span] = []  # closed ones; the last stays in `_open` until the next begins
        self._open: OpenSpan | None = None
        self._begun: list[OpenSpan] = []  # all of them, for `_go_back`
        self._owed: set[str] = set()  # calls of closed spans that still wait for their results
        self._owes_unseen = False  # True if some of those are given by reference
        self._turns: list[UserTurn] = []
        self.tokens = 0
        self._text_run = TextRun()
        self._text_runs: list[TextRun] = []  # as it was when each span began, for `_go_back`
        self._doubtful: list[int] = []  # positions of user messages that may be tool output
        self._settled = False  # True once a message has shown which format this is
        self._unknown: list[int] = []  # positions of messages of an unknown kind

    @property
    def newest(self) -> int:
        """The index of the newest span; 0 if there is none."""
        return len(self._spans) + (self._open is not None)

    @property
    def newest_tokens(self) -> int:
        """Tokens from the beginning of the newest span on; 0 if there is none."""
        return sum(self.sizes[self._open.start :]) if self._open else 0

    def continues(self, messages: Sequence[Message]) -> bool:
        """True if `messages` starts with the messages read so far. Cheap if they are the same objects."""
        known = len(self._given)
        if len(messages) < known or (known and messages[known - 1] != self._given[-1]):
            return False  # different histories mostly differ at the end
        if list(messages[:known]) != self._given:
            return False
        self._given[:] = self.messages[:] = messages[:known]  # equal, but the caller's own objects must be returned
        for position, plain in self._objects.items():
            self.messages[position] = plain
        return True

    def takes_marks(self, messages: Sequence[Message]) -> bool:
        """True if `messages` starts with those read so far apart from cache marks; changed marks are read again."""
        known = len(self._given)
        if len(messages) < known:
            return False
        changed = []
        for place, (old, new) in enumerate(zip(self._given, messages, strict=False)):
            if old is not new and old != new:
                if not (isinstance(old, dict) and isinstance(new, dict) and unmarked(old) == unmarked(new)):
                    return False
                changed.append(place)
        if changed:
            self.extend(messages[self._go_back(changed[0]) : known])
        return True

    def takes_other_words(self, messages: Sequence[Message]) -> bool:
        """Whether `messages` holds all steps read so far, but not the words behind the last one: those are forgotten,
        with that step, which has to be read again."""
        steps = len(self._given)
        while steps and self.owners[steps - 1] == 0:
            steps -= 1
        if not steps or len(messages) < steps or messages[steps - 1] != self._given[steps - 1]:
            return False
        if list(messages[:steps]) != self._given[:steps]:
            return False
        start = self._go_back(steps - 1)
        self._given[:] = self.messages[:] = messages[:start]
        for position, plain in self._objects.items():
            self.messages[position] = plain
        return True

    def _go_back(self, place: int) -> int:
        """Forget all messages from the beginning of the span at `place`; return how many remain."""
        while self._begun and self._begun[-1].start > place:
            self._begun.pop()
        start = self._begun.pop().start if self._begun else 0
        self._open = self._begun[-1] if self._begun else None
        self._owed = set().union(*(span.calls for span in self._begun[:-1]))
        self._owes_unseen = any(span.unseen_calls for span in self._begun[:-1])
        del self._spans[max(len(self._begun) - 1, 0) :]
        self._turns = [turn for turn in self._turns if start and turn.after <= len(self._begun)]
        columns: tuple[list[Any], ...] = (self._given, self.messages, self.sizes, self._values or [], self.owners)
        for column in columns:
            del column[start:]
        self._objects = {position: plain for position, plain in self._objects.items() if position < start}
        self._unknown = [position for position in self._unknown if position < start]
        self._doubtful = [position for position in self._doubtful if position < start]
        self._text_run = self._text_runs[len(self._begun)] if start else TextRun()
        del self._text_runs[len(self._begun) :]
        self.tokens = sum(self.sizes)
        return start

    def objects(self) -> dict[int, Message]:
        """Return the caller's SDK objects, by the identity of the plain messages they were read as."""
        return {id(plain): self._given[position] for position, plain in self._objects.items()}

    def is_current(self, newest: int = 0) -> bool:
        """True if no message was edited in place, as some agents do, since it was read.

        Checks the `newest` messages, by default all of them.
        """
        assert self._values is not None, "this reader was not to watch"
        for message, then in zip(self.messages[-newest:], self._values[-newest:], strict=True):
            now: list[object] = []
            _add_values(message, now)
            if now != then:
                return False
        return True

    def fits(self, messages: Iterable[Message]) -> bool:
        """True if the messages have the format in which this reader read the first ones."""
        if self._settled:
            return True
        shown, certain = shown_by(map(plain_message, messages))
        self._settled = certain and shown is self.wire
        return shown is None or shown is self.wire

    def extend(self, messages: Iterable[Message]) -> None:
        for given in messages:
            message = plain_message(given)
            parts = self._parts(message)
            before = self.tokens
            owners = [self._place(part, message) for part in parts]
            if message is not given:
                self._objects[len(self.messages)] = message
            self._given.append(given)
            self.messages.append(message)
            self.sizes.append(self.tokens - before)
            if self._values is not None:
                self._values.append([])
                _add_values(message, self._values[-1])
            self.owners.append(owners[0] if len(parts) == 1 else _by_block(parts, owners))

    @property
    def understands(self) -> bool:
        """True if the list is empty or at least one message is of a kind that the format has."""
        return not self.messages or len(self._unknown) < len(self.messages)

    def unknown(self) -> str | None:
        """Return the warning about messages of kinds that the format does not have; None if there are none."""
        if not self._unknown:
            return None
        if not self.understands:
            return not_understood(self.messages)
        first = self.messages[self._unknown[0]]
        kind = next(
            (f"{field} {first[field]!r}" for field in ("type", "role") if field in first), "no type and no role"
        )
        advice = advice_for(first)
        return (
            f"{len(self._unknown)} of {len(self.messages)} messages are not understood and stay where they are, the "
            f"first of them message {self._unknown[0]} with {kind}" + (f": {advice}" if advice else "")
        )

    def doubts(self) -> str | None:
        """Return the warning about user messages that may be tool output; None if there are none."""
        if not self._doubtful:
            return None
        count, first = len(self._doubtful), self._doubtful[0]
        few = "1 user message looks" if count == 1 else f"{count} user messages look"
        return (
            f"{few} like tool output, but may be the user's own words, so every word of them stays (the first is "
            f'message {first}); set observations to "always" if they are tool output, to "never" if they are not'
        )

    def _parts(self, message: Message) -> tuple[Part, ...]:
        position = len(self.messages)
        try:
            parts = self.wire.read(message, position)
        except MessageError as error:
            if advice := advice_for(message):
                raise MessageError(f"{error.problem}; {advice}", position) from error
            raise
        if not self.wire.knows(message):
            self._unknown.append(position)
        return parts

    def history(self, goal: str | None = None) -> History:
        last = () if self._open is None else (self._open.close(),)
        return History(
            goal=self._goal() if goal is None else goal,
            spans=(*self._spans, *last),
            user_turns=tuple(self._turns),
            messages=tuple(self.messages),
            owners=tuple(self.owners),
            format=self.wire.name,
            tokens=self.tokens,
            outlines=self._outlines,
            doubts=self.doubts(),
        )

    def _goal(self) -> str:
        """Return the user's words before the first step, or else their first words."""
        return join([turn.text for turn in self._turns if turn.after == 0]) or (
            self._turns[0].text if self._turns else ""
        )

    def _place(self, part: Part, message: Message) -> int:
        """Add a part to its span, or begin one; return the span's index, 0 for none."""
        tokens = _tokens(part, self._count)
        if not part.static:
            self.tokens += tokens
        if part.kind is Kind.TURN:
            if self._open is None or not (self.wire.turns_run_on and self._open.goes_on):
                self._begin()
            assert self._open is not None
            self._open.turn(part, message, tokens)
            if part.stored and not self._turns:
                self._open.incomplete = True  # no user message yet: the reference may be one
            return self._open.index
        if part.kind is Kind.RESULT or (part.kind is Kind.WORDS and self._is_observation(part, message)):
            if self._open is not None and self._open.awaits(part, self._owed):
                self._open.result(part, message, tokens, doubtful=self._owes_unseen)
                return self._open.index
            if self._open is not None:
                self._open.orphan()
            return 0  # an orphan; the invariants decide whether it is legal
        if part.static or not self._turns:
            self._text_run = self._text_run.with_task(part.text)
        if part.kind is Kind.WORDS:
            self._turns.append(UserTurn(self._open.index if self._open else 0, part.text))
        if self._open is not None:
            self._open.interrupt(part.kind is Kind.WORDS)
        return 0

    def _begin(self) -> None:
        leader = None
        if self._open is not None:
            self._spans.append(self._open.close())
            self._owed |= self._open.calls
            self._owes_unseen = self._owes_unseen or self._open.unseen_calls > 0
            leader = self._open.leader_of_next()
        self._open = OpenSpan(len(self._spans) + 1, leader, start=len(self.messages))
        self._begun.append(self._open)
        self._text_runs.append(self._text_run)

    def _is_observation(self, part: Part, message: Message) -> bool:
        """True if a user message is the environment's output rather than the user's words; see `wire/react.py`."""
        rule = self._config.observations
        span = self._open
        if rule == "never" or span is None or not span.just_spoke or span.calls or part.blocks is not None:
            return False
        if rule == "always":
            return True
        if callable(rule):
            return bool(rule(message, span.messages[-1]))
        reading, self._text_run = self._text_run.read(join(span.actions), part.text)
        if reading is Reading.DOUBT:
            self._doubtful.append(len(self.messages))
        return reading is Reading.OBSERVATION


def _tokens(part: Part, count: Count) -> int:
    return sum(map(count, part.counted)) + part.extra_tokens


def _add_values(value: object, found: list[object]) -> None:
    """Collect every value in a message, at any depth: a reminder added to a content list is the user's words too."""
    if isinstance(value, _MAPPINGS):
        found.extend(value)
        inside: Iterable[object] = value.values()
    elif isinstance(value, _LISTS):
        inside = value
    else:
        found.append(value)
        return
    for inner in inside:
        if isinstance(inner, str):  # the most common case, without a recursive call
            found.append(inner)
        else:
            _add_values(inner, found)


def _by_block(parts: Sequence[Part], owners: Sequence[int]) -> Owner:
    """Return one owner per content block, or the single owner that all share."""
    if len(set(owners)) == 1:
        return owners[0]
    owner_of = {block: owner for part, owner in zip(parts, owners, strict=True) for block in part.blocks or ()}
    return tuple(owner_of[block] for block in sorted(owner_of))
