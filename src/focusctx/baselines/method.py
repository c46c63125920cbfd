"""The protocol that every method follows, and the base of methods that choose whole turns.

At each step the whole history goes in, and what to send comes out. A turn is a span: one step of the agent with all its
tool calls and their results. System prompts, the task and whatever else the user said belong to no turn and always
stay, and so do the newest turn and whatever a provider ties to a turn that stays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from ..config import FocusConfig
from ..errors import ConfigError, MissingExtraError
from ..invariants import violations
from ..pipeline.must_stay import leaders_of, pinned_spans
from ..pipeline.rebuild import rebuild
from ..pipeline.split import RecentHistories
from ..tokens import Counter
from ..types import History, Message, Span, Usage
from ..wire import blanked, wire_named

_FORMAT = "chat_completions"


@dataclass(frozen=True, slots=True)
class Compressed:
    """The messages to send at one step, and what it took to choose them."""

    messages: Sequence[Message]
    happened: bool = False
    """True if this step was a compression event: something sent before is sent no more."""
    usage: Usage = Usage()
    """Usage of the models that were asked: a draft, a summariser, an embedder."""
    failure: str | None = None
    """Why compression was due but did not happen; the last view is then sent again, followed by new messages."""
    unanswered: bool = False
    """True if it failed because a model gave no answer, which says nothing about the method."""


class Method(Protocol):
    """A method, made for one run of an agent. Histories are Chat Completions messages: tool calls or plain text."""

    name: str

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        """`messages` is the full history, which only grows. Never raises for what a model or the network does."""


Factory: TypeAlias = Callable[[], Method]
"""Makes a new method for each run."""


@dataclass(frozen=True, slots=True)
class Made:
    """A message that the method wrote itself, to replace a turn."""

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
    """Base of methods that only choose which turns stay. It reads the history, and rebuilds legal messages."""

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


def turn_as_text(span: Span) -> str:
    """Render one turn, word for word."""
    named = (("Thought", span.thought), ("Action", span.action), ("Observation", span.observation))
    return "\n".join(f"{name}: {text}" for name, text in named if text)


def turns_as_text(spans: Iterable[Span]) -> str:
    return "\n\n".join(f"Step {span.index}\n{turn_as_text(span)}" for span in spans)


def dialogue_as_text(history: History, spans: Sequence[Span]) -> str:
    """Render turns with the user's words between them, in order. The first words, the task, are left out."""
    pieces: list[str] = []
    for span in spans:
        pieces.append(turns_as_text([span]))
        pieces += [f"The user:\n{turn.text}" for turn in history.user_turns if turn.after == span.index]
    return "\n\n".join(pieces)
