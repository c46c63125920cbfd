"""Base of methods that work on whole turns: each only chooses which turns stay.

A turn is a span: one step of the agent with all its tool calls and their results. System prompts, the task and
whatever else the user said belong to no turn and always stay, and so do the newest turn and whatever a provider ties
to a turn that stays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ..config import FocusConfig
from ..errors import ConfigError, MissingExtraError
from ..invariants import violations
from ..pipeline.must_stay import leaders_of, pinned_spans
from ..pipeline.rebuild import rebuild
from ..pipeline.split import RecentHistories
from ..tokens import Counter
from ..types import History, Message, Span, Usage
from ..wire import blanked, wire_named
from .method import Compressed

_FORMAT = "chat_completions"


@dataclass(frozen=True, slots=True)
class Made:
    """A message of the method's own, in the place of a turn that goes."""

    message: Message
    turn: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The turns that stay, what replaces the others, and the usage of choosing."""

    kept: Collection[int]
    masked: bool = False
    """True if the others stay without their observations."""
    made: Made | None = None
    usage: Usage = Usage()


class NoChoice(Exception):
    """Raised when a needed model failed; carries its usage, and whether it gave no answer at all."""

    def __init__(self, why: str, usage: Usage = Usage(), *, unanswered: bool = False) -> None:
        super().__init__(why)
        self.usage = usage
        self.unanswered = unanswered


class Turnwise(ABC):
    """Reads the history, asks for the choice, and puts the messages together again: legal, or as they were."""

    name: str

    def __init__(self) -> None:
        self.count = Counter().count
        self._recent = RecentHistories(FocusConfig(), self.count)
        self._given = 0
        self._sent: Sequence[Message] = ()

    @abstractmethod
    async def choose(self, history: History) -> Choice | None:
        """Choose what stays of this history; None for all of it. Raises NoChoice where a model failed."""

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        as_it_is = [*self._sent, *messages[self._given :]]
        compressed = await self._compress(messages, as_it_is)
        self._given, self._sent = len(messages), compressed.messages
        return replace(compressed, happened=not _all_stand_in(as_it_is, compressed.messages))

    async def _compress(self, messages: Sequence[Message], as_it_is: Sequence[Message]) -> Compressed:
        reader = self._recent.current(self._recent.read(messages, _FORMAT))
        history = reader.history()
        if illegal := violations(history.messages, _FORMAT):
            return Compressed(as_it_is, failure=f"the provider would refuse this history: {illegal[0]}")
        try:
            choice = await self.choose(history)
        except NoChoice as problem:
            return Compressed(as_it_is, usage=problem.usage, failure=str(problem), unanswered=problem.unanswered)
        if choice is None:
            return Compressed(messages)
        rebuilt = _rebuilt(history, choice)
        if broken := violations(rebuilt, _FORMAT):
            why = f"the provider would refuse the compressed history: {broken[0]}"
            return Compressed(as_it_is, usage=choice.usage, failure=why)
        objects = reader.objects()
        return Compressed([objects.get(id(message), message) for message in rebuilt], usage=choice.usage)


def droppable(history: History) -> tuple[Span, ...]:
    """Return the older turns: all but the newest, and those that must stay with it."""
    pinned = pinned_spans(history, None)
    return tuple(span for span in history.spans if span.index not in pinned)


def problem_of(error: Exception) -> str:
    """Return the text of a model's failure. An error in the program or its settings is raised again."""
    if isinstance(error, ConfigError | MissingExtraError):
        raise error
    return str(error) or type(error).__name__


def _rebuilt(history: History, choice: Choice) -> list[Message]:
    kept = {*choice.kept, *pinned_spans(history, None)}
    kept |= leaders_of(history, kept).keys()
    if choice.masked:
        wire, whole = wire_named(history.format), {0, *kept}
        owned = zip(history.messages, history.owners, strict=True)
        return [message if owner in whole else blanked(wire, message) for message, owner in owned]
    if choice.made is None:
        return rebuild(history, kept)
    place = history.owners.index(choice.made.turn)
    before = replace(history, messages=history.messages[:place], owners=history.owners[:place])
    after = replace(history, messages=history.messages[place:], owners=history.owners[place:])
    return [*rebuild(before, kept), choice.made.message, *rebuild(after, kept)]


def _all_stand_in(before: Sequence[Message], after: Sequence[Message]) -> bool:
    """Return True if every message is still sent, in the same order."""
    rest = iter(after)
    return all(any(message is other or message == other for other in rest) for message in before)
