"""Step 1, split: a message list becomes a goal, the user's words and numbered spans.

A `Reader` goes through the messages once, from the left, and remembers its place: a history that grew by one step costs
one step. No decision about a message depends on the messages after it. `RecentHistories` finds the reader of a
conversation again; an `OpenSpan` is the newest span, while it still grows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import count as count_from
from itertools import pairwise
from typing import Any

from ..config import FocusConfig
from ..errors import MessageError
from ..types import Call, History, Message, Owner, Span, UserTurn
from ..wire import Kind, Part, Wire, recognise, shown_by, wire_named
from ..wire.foreign import advice_for, not_understood
from ..wire.part import join, kind_of, only_blocks, unmarked
from ..wire.react import Reading, TextRun
from .outline import Outlines, message_tokens

Count = Callable[[str], int]

_log = logging.getLogger("focusctx")
_REMEMBERED = 8
"""Number of conversations that may alternate before one is read again from the start."""
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
    reader = Reader(_wire_of(messages, format), config, count)
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


def plain_message(message: Any) -> Any:
    """Return the message as plain data: itself, unless it is an SDK object or contains some.

    The SDKs' own guides write an agent's loop with `messages.append(response.choices[0].message)` and `"content":
    response.content`. An SDK sends the fields that are set in such an object, and these are what is read here.
    """
    if hasattr(message, "model_dump"):
        return _as_plain(message)
    if isinstance(message, Mapping):
        for field in ("content", "parts"):
            blocks = message.get(field)
            if isinstance(blocks, list) and any(hasattr(block, "model_dump") for block in blocks):
                return {**message, field: _as_plain(blocks)}
    return message


class RecentHistories:
    """Finds the reader of a conversation by its messages; comparing is nearly free if they are the same objects.

    Not thread-safe: a reader keeps growing after it was handed out, so the owner holds a lock.
    """

    def __init__(self, config: FocusConfig, count: Count) -> None:
        self._config = config
        self._count = count
        self._readers: list[tuple[str | None, Reader]] = []  # each with the format requested for it
        self._warned = False

    def read(self, messages: Sequence[Message], format: str | None) -> Reader:
        """Return a reader that has read exactly these messages."""
        reader = self._longest(messages, format)
        seen = len(reader.messages) if reader else 0
        check_list(messages, seen)
        new = messages[seen:]
        if reader is None or not (format or reader.fits(new)):
            check_list(messages)
            reader = Reader(_wire_of(messages, format), self._config, self._count, watched=True)
            new = messages
        else:
            self._forget(reader)  # put back below, unless it meets a bad message
        reader.extend(new)
        if not self._warned and (unknown := reader.unknown()):
            self._warned = True  # once is enough: the history is sent again at every step
            _log.warning("%s", unknown)
        self._readers = [(format, reader), *self._readers[: _REMEMBERED - 1]]
        return reader

    def current(self, reader: Reader, newest: int = 0) -> Reader:
        """Return the reader, or a new one over the same messages if some were edited in place since they were read.

        Checks the `newest` messages, by default all of them.
        """
        if reader.is_current(newest):
            return reader
        asked = self._forget(reader)
        return self.read(reader.messages, asked)

    def _longest(self, messages: Sequence[Message], format: str | None) -> Reader | None:
        """Return the reader that has read the longest prefix of the list."""
        if not isinstance(messages, list | tuple):
            return None
        asked = [reader for form, reader in self._readers if form == format]
        known = [reader for reader in asked if reader.continues(messages)]
        return max(known, key=lambda reader: len(reader.messages), default=None) or next(
            (reader for reader in asked if reader.takes_marks(messages)), None
        )

    def _forget(self, reader: Reader) -> str | None:
        """Remove a reader; return the format requested for it."""
        asked = next((entry[0] for entry in self._readers if entry[1] is reader), reader.wire.name)
        self._readers = [entry for entry in self._readers if entry[1] is not reader]
        return asked


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
        """True if `messages` holds all steps read so far, but not the words behind the last one: those are forgotten,
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


class OpenSpan:
    """The newest span, while it still grows: which parts belong to it, and whether it may be dropped."""

    def __init__(self, index: int, leader: int | None, start: int) -> None:
        self.index = index
        self.start = start
        self.leader = leader
        self.messages: list[Message] = []
        self.actions: list[str] = []
        self.calls: set[str] = set()
        self.just_spoke = False
        self.incomplete = False
        """True if parts of the step may be elsewhere; it must not be dropped then."""
        self.unseen_calls = 0
        """Calls given by reference that no output has answered yet."""
        self._refers = False
        self._held: set[str] = set()
        self._thoughts: list[str] = []
        self._observations: list[str] = []
        self._made: list[Call] = []
        self._tokens = 0
        self._reasons = False
        self._leads = False
        self._spoken_to = False

    @property
    def goes_on(self) -> bool:
        """True if the model's next output still belongs to this step."""
        return self.just_spoke or (bool(self._held) and not self._spoken_to)

    def awaits(self, part: Part, owed: Set[str]) -> bool:
        """True if a result belongs here: to a call of this step, or to one given by reference.

        `owed` are the calls of earlier steps that wait for results.
        """
        unknown = set(part.answers) - self.calls
        return not unknown or (len(unknown) <= self.unseen_calls and unknown.isdisjoint(owed))

    def turn(self, part: Part, message: Message, tokens: int) -> None:
        self.just_spoke = True
        keys = self._keys(part.calls)
        self.calls.update(keys)
        self._made += map(Call, keys, part.made)
        self._held.update(part.holds)
        self._held.difference_update(part.answers)
        self._reasons = self._reasons or part.reasons
        self._leads = part.leads
        self._refers = self._refers or part.stored
        self.unseen_calls += part.unseen_calls
        if part.program is not None and part.program not in self._held:
            self.incomplete = True  # the program may be given by reference, and needs all its calls
        if part.reasons and not self.messages:
            self.leader = None
        _add(self._thoughts, part.thought)
        _add(self.actions, part.action)
        self._hold(message, part, tokens)

    def result(self, part: Part, message: Message, tokens: int, *, doubtful: bool = False) -> None:
        """Add a result. If it is `doubtful` that this step made the hidden call it answers, the step must stay."""
        unseen = len(set(part.answers) - self.calls)
        self.just_spoke = part.goes_on
        self._leads = False
        self.unseen_calls -= unseen
        self.incomplete = self.incomplete or (doubtful and unseen > 0)
        self.calls.difference_update(part.answers)
        _add(self._observations, part.text)
        self._hold(message, part, tokens)

    def interrupt(self, by_user: bool) -> None:
        """Note that something outside the step came after it."""
        self.just_spoke = False
        self.incomplete = self.incomplete or self._leads
        self._spoken_to = self._spoken_to or by_user

    def orphan(self) -> None:
        """Note a result that belongs to no known call: it may belong to a reference."""
        self.incomplete = self.incomplete or self._leads or self._refers

    def leader_of_next(self) -> int | None:
        """Return the span whose hidden reasoning the next step continues, unless it has its own."""
        if self._spoken_to:
            return None
        # The first one, if there are two: providers want to see how a turn began.
        return self.index if self._reasons and self.leader is None else self.leader

    def close(self) -> Span:
        return Span(
            index=self.index,
            thought=join(self._thoughts),
            action=join(self.actions),
            observation=join(self._observations),
            messages=tuple(self.messages),
            tokens=self._tokens,
            waiting=bool(self.calls or self._held or self.unseen_calls) or self.incomplete,
            needs=self.leader,
            calls=tuple(self._made),
            reasons=self._reasons,
        )

    def _keys(self, calls: Sequence[str]) -> list[str]:
        """Return the calls' keys; Gemini's are names, and get numbers if earlier messages of the turn have the same."""
        taken = {made.id for made in self._made}
        found: list[str] = []
        for call in calls:
            numbered = (f"{call.partition('#')[0]}#{number}" for number in count_from(2))
            found.append(call if call not in taken else next(key for key in numbered if key not in taken))
            taken.add(found[-1])
        return found

    def _hold(self, message: Message, part: Part, tokens: int) -> None:
        if part.blocks is not None:
            message = only_blocks(message, part.blocks)
        self.messages.append(message)
        self._tokens += tokens


def _wire_of(messages: Sequence[Message], format: str | None) -> Wire:
    return wire_named(format) if format else recognise(map(plain_message, messages))


def _as_plain(value: Any) -> Any:
    """Return plain data for an SDK object, also inside a list; anything else unchanged."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True)
    return [_as_plain(item) for item in value] if isinstance(value, list) else value


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


def _add(pieces: list[str], piece: str) -> None:
    if piece:
        pieces.append(piece)
