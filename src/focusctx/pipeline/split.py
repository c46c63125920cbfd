"""Step 1, split: a message list becomes a goal, the user's words and numbered spans.

The reader goes through the messages once, from the left, and remembers where it was: a history that grew by
one step costs one step. Nothing it decides about a message depends on the messages after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ..config import FocusConfig
from ..errors import MessageError
from ..types import History, Message, Owner, Span, UserTurn
from ..wire import Kind, Part, Wire, claimed, react, recognise, wire_named
from ..wire.marks import unmarked
from ..wire.part import join, kind_of
from .plain import plain_message

Count = Callable[[str], int]

_MAPPINGS = (dict, Mapping)
"""A dict is told from other things at once, a mapping slowly."""
_LISTS = (list, tuple)


def read_history(
    messages: Sequence[Message],
    config: FocusConfig,
    count: Count,
    *,
    format: str | None = None,
    goal: str | None = None,
) -> History:
    """The history in a message list."""
    check_list(messages)
    reader = Reader(wire_named(format) if format else recognise(map(plain_message, messages)), config, count)
    reader.extend(messages)
    return reader.history(goal)


def measure(history: History, count: Count) -> History:
    """A history made of explicit spans, for agents with no chat format, with its tokens counted."""
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
    """What a message adds to the size of its history, whatever stands before it."""
    return sum(_tokens(part, count) for part in wire.read(plain_message(message), 0) if not part.static)


def check_list(messages: object, start: int = 0) -> None:
    """Refuse what is no message list, with words that say what it is instead; look from `start` on."""
    if isinstance(messages, Mapping) and "messages" in messages:
        raise MessageError("got a whole request; pass its 'messages' (or 'input') list")
    if not isinstance(messages, list | tuple):
        raise MessageError(f"expected a list of messages, got {kind_of(messages)}")
    for position, message in enumerate(messages[start:], start):
        if not isinstance(message, Mapping) and not hasattr(message, "model_dump"):
            raise MessageError(f"expected an object, got {kind_of(message)}", position)


class Reader:
    """Reads a growing history, each message once. One that is `watched` can tell whether any was edited since."""

    def __init__(self, wire: Wire, config: FocusConfig, count: Count, *, watched: bool = False) -> None:
        self.wire = wire
        self.messages: list[Message] = []
        """What was read, as plain data."""
        self.sizes: list[int] = []
        """Tokens of each message, as far as they count against the budget."""
        self._given: list[Message] = []  # the same as the caller gave it, SDK objects and all
        self._objects: dict[int, Message] = {}  # position → plain form, where the two differ
        self._values: list[list[object]] | None = [] if watched else None
        self._config = config
        self._count = count
        self.owners: list[Owner] = []
        self._spans: list[Span] = []  # closed ones; the last stays in `_open` until the next begins
        self._open: _OpenSpan | None = None
        self._begun: list[_OpenSpan] = []  # all of them, to be able to go back
        self._turns: list[UserTurn] = []
        self.tokens = 0
        self._text_actions = False
        self._settled = False  # some message has shown which format this is

    @property
    def newest(self) -> int:
        """The index of the newest span, 0 when there is none."""
        return len(self._spans) + (self._open is not None)

    def continues(self, messages: Sequence[Message]) -> bool:
        """Whether `messages` starts with what was read so far. Cheap where they are the very same objects."""
        known = len(self._given)
        if len(messages) < known or (known and messages[known - 1] != self._given[-1]):
            return False  # most that are not the same differ at the end
        if list(messages[:known]) != self._given:
            return False
        self._given[:] = self.messages[:] = messages[:known]  # equal, but the caller's own are what goes back
        for position, plain in self._objects.items():
            self.messages[position] = plain
        return True

    def takes_marks(self, messages: Sequence[Message]) -> bool:
        """Whether `messages` starts with what was read so far, but for cache marks: then those are read again."""
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
        """Forget all messages from the beginning of the span at `place` on; how many are still known."""
        while self._begun and self._begun[-1].start > place:
            self._begun.pop()
        start = self._begun.pop().start if self._begun else 0
        self._open = self._begun[-1] if self._begun else None
        del self._spans[max(len(self._begun) - 1, 0) :]
        self._turns = [turn for turn in self._turns if start and turn.after <= len(self._begun)]
        columns: tuple[list[Any], ...] = (self._given, self.messages, self.sizes, self._values or [], self.owners)
        for column in columns:
            del column[start:]
        self._objects = {position: plain for position, plain in self._objects.items() if position < start}
        self.tokens = sum(self.sizes)
        return start

    def objects(self) -> dict[int, Message]:
        """The caller's SDK objects, by the identity of the plain messages they were read as."""
        return {id(plain): self._given[position] for position, plain in self._objects.items()}

    def is_current(self, newest: int = 0) -> bool:
        """Whether no message was given another content since it was read; agents do edit them in place.

        Looks at the newest so many messages, at all of them by default.
        """
        assert self._values is not None, "this reader was not to watch"
        for message, then in zip(self.messages[-newest:], self._values[-newest:], strict=True):
            now: list[object] = []
            _add_values(message, now)
            if now != then:
                return False
        return True

    def fits(self, messages: Iterable[Message]) -> bool:
        """Whether more messages are of the format this reader took the first ones for."""
        if self._settled:
            return True
        shown = next((wire for message in messages if (wire := claimed(plain_message(message)))), None)
        self._settled = shown is self.wire
        return shown is None or shown is self.wire

    def extend(self, messages: Iterable[Message]) -> None:
        for given in messages:
            message = plain_message(given)
            parts = self.wire.read(message, len(self.messages))
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
        )

    def _goal(self) -> str:
        """What the user asked for: the words before the first step, or the first words there are."""
        return join([turn.text for turn in self._turns if turn.after == 0]) or (
            self._turns[0].text if self._turns else ""
        )

    def _place(self, part: Part, message: Message) -> int:
        """The span this part belongs to, 0 for none; spans begin and grow here."""
        tokens = _tokens(part, self._count)
        if not part.static:
            self.tokens += tokens
        if part.kind is Kind.TURN:
            if self._open is None or not (self.wire.turns_run_on and self._open.goes_on):
                self._begin()
            assert self._open is not None
            self._open.turn(part, message, tokens)
            return self._open.index
        if part.kind is Kind.RESULT or (part.kind is Kind.WORDS and self._is_observation(part, message)):
            if self._open is not None and self._open.awaits(part):
                self._open.result(part, message, tokens)
                return self._open.index
            return 0  # an orphan: whether that is legal is for the invariants to say
        if part.static or not self._turns:
            self._text_actions = self._text_actions or react.asks_for_text_actions(part.text)
        if part.kind is Kind.WORDS:
            self._turns.append(UserTurn(self._open.index if self._open else 0, part.text))
        if self._open is not None:
            self._open.interrupt(part.kind is Kind.WORDS)
        return 0

    def _begin(self) -> None:
        leader = None
        if self._open is not None:
            self._spans.append(self._open.close())
            leader = self._open.leader_of_next()
        self._open = _OpenSpan(len(self._spans) + 1, leader, start=len(self.messages))
        self._begun.append(self._open)

    def _is_observation(self, part: Part, message: Message) -> bool:
        """Which of the two readings a user message has; see `wire/react.py`."""
        rule = self._config.observations
        span = self._open
        if rule == "never" or span is None or not span.just_spoke or span.calls or part.blocks is not None:
            return False
        if rule == "always":
            return True
        if callable(rule):
            return bool(rule(message, span.messages[-1]))
        return self._text_actions and bool(span.actions) and react.looks_like_tool_output(part.text)


class _OpenSpan:
    """The newest span, while it still grows."""

    def __init__(self, index: int, leader: int | None, start: int) -> None:
        self.index = index
        self.start = start
        self.leader = leader
        self.messages: list[Message] = []
        self.actions: list[str] = []
        self.calls: set[str] = set()
        self.just_spoke = False
        self._held: set[str] = set()
        self._thoughts: list[str] = []
        self._observations: list[str] = []
        self._tokens = 0
        self._reasons = False
        self._leads = False
        self._cut_off = False
        self._spoken_to = False

    @property
    def goes_on(self) -> bool:
        """Whether what the model makes next is still this step."""
        return self.just_spoke or (bool(self._held) and not self._spoken_to)

    def awaits(self, part: Part) -> bool:
        return not part.answers or self.calls.issuperset(part.answers)

    def turn(self, part: Part, message: Message, tokens: int) -> None:
        self.just_spoke = True
        self.calls.update(part.calls)
        self._held.update(part.holds)
        self._held.difference_update(part.answers)
        self._reasons = self._reasons or part.reasons
        self._leads = part.leads
        if part.reasons and not self.messages:
            self.leader = None
        _add(self._thoughts, part.thought)
        _add(self.actions, part.action)
        self._hold(message, part, tokens)

    def result(self, part: Part, message: Message, tokens: int) -> None:
        self.just_spoke = part.goes_on
        self.calls.difference_update(part.answers)
        _add(self._observations, part.text)
        self._hold(message, part, tokens)

    def interrupt(self, by_user: bool) -> None:
        """Something that is no part of the step came after it."""
        self.just_spoke = False
        self._cut_off = self._cut_off or self._leads
        self._spoken_to = self._spoken_to or by_user

    def leader_of_next(self) -> int | None:
        """The span whose hidden reasoning the next step goes on from, if it brings none of its own."""
        if self._spoken_to:
            return None
        # The first one, where there are two: providers want to see how a turn began.
        return self.index if self._reasons and self.leader is None else self.leader

    def close(self) -> Span:
        return Span(
            index=self.index,
            thought=join(self._thoughts),
            action=join(self.actions),
            observation=join(self._observations),
            messages=tuple(self.messages),
            tokens=self._tokens,
            waiting=bool(self.calls or self._held) or self._cut_off,
            needs=self.leader,
        )

    def _hold(self, message: Message, part: Part, tokens: int) -> None:
        if part.blocks is not None:
            message = {**message, "content": [message["content"][number] for number in part.blocks]}
        self.messages.append(message)
        self._tokens += tokens


def _tokens(part: Part, count: Count) -> int:
    return sum(map(count, part.counted)) + part.extra_tokens


def _add_values(value: object, found: list[object]) -> None:
    """All that stands in a message, however deep: a reminder slipped into a content list is the user's words too."""
    if isinstance(value, _MAPPINGS):
        found.extend(value)
        inside: Iterable[object] = value.values()
    elif isinstance(value, _LISTS):
        inside = value
    else:
        found.append(value)
        return
    for inner in inside:
        if isinstance(inner, str):  # most of them, and spared a call
            found.append(inner)
        else:
            _add_values(inner, found)


def _add(pieces: list[str], piece: str) -> None:
    if piece:
        pieces.append(piece)


def _by_block(parts: Sequence[Part], owners: Sequence[int]) -> Owner:
    """One owner per content block, or the one that all of them share."""
    if len(set(owners)) == 1:
        return owners[0]
    owner_of = {block: owner for part, owner in zip(parts, owners, strict=True) for block in part.blocks or ()}
    return tuple(owner_of[block] for block in sorted(owner_of))
