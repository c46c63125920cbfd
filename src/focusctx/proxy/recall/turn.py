"""One turn of the agent: decide which parts of each round with the provider it sees, and when, in any format.

In a turn the agent sees:

- Text at once, as it arrives. If the model recalls nothing, exactly the bytes that the provider sent.
- Tool calls when the round is over, since only then is it known whether one of them is a recall. Signed thinking
  (Anthropic) and reasoning items (Responses) once it is known what they led to: they are shown or hidden with it.
- In a round with a recall, nothing from the first tool call on. The next round is requested with the parts that were
  shown and the recalls. The model then makes its other calls again, knowing what it recalled.
- One message: a later round has no beginning of its own, and its parts are numbered from the last one shown.
- The usage of all rounds, added up: all of them are billed. Anthropic's `message_start` reports that of its own round;
  the `message_delta` at the end has the sums, and clients use those.

A stream has the id under which the agent was shown its first part. A round that only thinks and recalls is not shown
at all, so mostly that is the last round's own id. (A Responses client refuses a stream that changes its id.) An
answer that is not streamed has the last round's id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

from ...session.recall import TOOL
from ...types import Message
from .sse import Json, Splitter, encode, payload, read_object, split, with_payload

Kind: TypeAlias = Literal["said", "thought", "call", "recall"]
_NAME = TOOL.encode()
_UNREAD = 256 * 1024
"""Bytes of a stream that are kept unparsed. Most never need to be parsed."""


@dataclass(frozen=True, slots=True)
class RoundPart:
    """A content block (Anthropic), an output item (Responses), or a call, all thoughts or all text (chat)."""

    index: int
    kind: Kind
    value: Json


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a round."""

    rest: bytes = b""
    """Bytes that the agent still gets; for an answer that is not streamed, the whole body."""
    queries: tuple[str, ...] = ()
    """Queries of the model's recalls; empty when the turn is over."""


class Hold(Enum):
    """The current treatment of events."""

    NOT = auto()
    """Shown at once."""
    BRIEFLY = auto()
    """Held until it is known what follows."""
    FOR_GOOD = auto()
    """Held to the end of the round."""


class RoundReader(Protocol):
    """Reassembles the answer of one round from its events."""

    id: str | None
    usage: Json

    @property
    def finished(self) -> bool:
        """True if the model completed its answer and was not cut off."""

    def read(self, data: Json) -> None: ...

    def read_whole(self, answer: Json) -> None:
        """Read an answer that is not streamed."""

    def take(self) -> list[RoundPart]:
        """Return the parts read since the last call."""


R = TypeVar("R", bound=RoundReader)


class Turn(ABC, Generic[R]):
    """One answer to the agent, made of one or more rounds. It never raises, whatever a provider sends."""

    mark: ClassVar[bytes]
    """Bytes in every event that may change how events are treated."""
    begins: ClassVar[Hold]
    bound: ClassVar[bool] = False
    """True if a thought names the one part that may follow it."""

    def __init__(self) -> None:
        self.alias: tuple[str, str] | None = None
        """For Responses: the id that the agent was shown and the provider's id of the last round, if they differ. A
        `previous_response_id` with the first must be changed to the second, or the provider misses the recalls."""
        self._id: str | None = None
        """The id that the agent was shown."""
        self._before: list[Json] = []
        """Parts of earlier rounds that the agent was shown."""
        self._spent: Json = {}
        self._extra: list[Message] = []
        self._later = False
        self._begin()

    def _begin(self) -> None:
        self._splitter = Splitter()
        self._hold: Hold = self.begins if self._id is None else Hold.NOT
        self._shown = bytearray()
        self._held = bytearray()
        self._reader = self._new_reader()
        self._parts: tuple[list[RoundPart], list[RoundPart]] = ([], [])
        """Parts that were shown, and parts held until the end of the round."""
        self._left_out: frozenset[int] = frozenset()
        """Indices of the parts of the last round that the agent does not see."""
        self._calls_left = True

    # For streams

    def feed(self, chunk: bytes) -> bytes:
        """Take a piece of a stream, and return what the agent gets now."""
        if self._hold is Hold.FOR_GOOD:
            self._held += self._splitter.rest() + chunk
            return b""
        if not self._later and self._splitter.passes(chunk) and self.mark not in chunk:
            return self._take(chunk)
        return b"".join([self._sort(event) for event in self._splitter.feed(chunk)])

    def _sort(self, event: bytes) -> bytes:
        if self.mark in event and self._hold is not Hold.FOR_GOOD and (data := payload(event)):
            self._hold = self._judge(data) or self._hold
        return self._take(event)

    def _take(self, events: bytes) -> bytes:
        if self._hold is Hold.NOT:
            return self._show(self._release() + events)
        self._held += events
        return b""

    def _release(self) -> bytes:
        """Release all held events, and return them."""
        held = bytes(self._held)
        self._held.clear()
        return held

    def _show(self, events: bytes) -> bytes:
        self._shown += events
        if len(self._shown) > _UNREAD:
            self._read_shown()
        if not self._later and not self._left_out:
            return events
        return b"".join(map(self._rewritten, split(events)))

    def _rewritten(self, event: bytes) -> bytes:
        data = payload(event)
        if data is None:
            return event
        before = encode(data)
        if not self._rewrite(data):
            return b""
        return event if encode(data) == before else with_payload(event, data)

    def end(self, *, last: bool = False) -> Ending:
        """End the stream of a round. In the `last` round recalls are left out instead of answered."""
        self._held += self._splitter.rest()
        if self._may_recall():
            self._read_shown()
            shown = self._reader.take()
            self._adopt(shown)
            for event in split(bytes(self._held)):
                if data := payload(event):
                    self._reader.read(data)
            if ending := self._decide(shown, self._reader.take(), last):
                return ending
        return Ending(self._show(self._release()))

    def _may_recall(self) -> bool:
        """True if the held events may contain a recall. (The name alone does not: Responses repeats all tools.)"""
        return _NAME in self._held and any(self.mark in event and _NAME in event for event in split(bytes(self._held)))

    def _read_shown(self) -> None:
        for event in split(bytes(self._shown)):
            if data := payload(event):
                self._reader.read(data)
        self._shown.clear()

    # For answers that are not streamed

    def whole(self, body: bytes, *, last: bool = False) -> Ending:
        """Take a round that is not streamed."""
        if not self._later and _NAME not in body:
            return Ending(body)
        answer = read_object(body)
        if answer is None:
            return Ending(body)
        self._reader.read_whole(answer)
        parts = self._reader.take()
        calls = (place for place, part in enumerate(parts) if part.kind in ("call", "recall"))
        first = next(calls, len(parts))
        while first and parts[first - 1].kind == "thought":
            first -= 1
        if ending := self._decide(parts[:first], parts[first:], last):
            return ending
        if not self._later and not self._left_out:
            return Ending(body)
        self._merge(answer)
        return Ending(encode(answer))

    # For both

    def _decide(self, shown: list[RoundPart], held: list[RoundPart], last: bool) -> Ending | None:
        """Return the queries of the recalls to answer; else hide recalls that cannot be answered, and return None."""
        recalls = [part for part in held if part.kind == "recall"]
        out_of_order = any(part.kind in ("call", "recall") for part in shown)
        if recalls and self._reader.finished and not last and not out_of_order:
            self._parts = shown, held
            return Ending(queries=tuple(map(self._query, recalls)))
        if recalls:
            kept = select(held, lambda part: part.kind != "recall", bound=self.bound)
            self._left_out = frozenset(part.index for part in held if part not in kept)
            self._calls_left = any(part.kind == "call" for part in kept)
        return None

    def answer(self, results: Sequence[str]) -> list[Message]:
        """Begin the next round with the recalled texts. Returns all messages to send after the agent's own."""
        shown, held = self._parts
        kept = select(held, lambda part: part.kind == "recall", bound=self.bound)
        self._extra += self._messages([*shown, *kept], results)
        self._before += [part.value for part in self._seen(shown)]
        self._spent = add_usage(self._spent, self._reader.usage)
        self._later = True
        self._begin()
        return list(self._extra)

    def keep_alive(self) -> bytes:
        """Return bytes that every client ignores, to send when nothing was shown for a while."""
        return b": waiting\n\n"

    # Different in each format

    @abstractmethod
    def _new_reader(self) -> R: ...

    @abstractmethod
    def _judge(self, data: Json) -> Hold | None:
        """Return how to treat events from this one on; None if it changes nothing."""

    def _adopt(self, _shown: list[RoundPart]) -> None:
        """Record what the agent has been shown of this round, before the rest is read."""
        self._id = self._id or self._reader.id

    def _seen(self, shown: list[RoundPart]) -> list[RoundPart]:
        """Return the parts that the agent really sees of those that are not held."""
        return shown

    @abstractmethod
    def _rewrite(self, data: Json) -> bool:
        """Change an event so that a later round continues the one before; False if the agent must not see it."""

    @abstractmethod
    def _merge(self, answer: Json) -> None:
        """Change an answer that is not streamed so that it includes the rounds before."""

    @abstractmethod
    def _query(self, recall: RoundPart) -> str: ...

    @abstractmethod
    def _messages(self, parts: list[RoundPart], results: Sequence[str]) -> list[Message]:
        """Return a round as messages for the model: these parts, and the results of the recalls among them."""

    @abstractmethod
    def fail(self, body: bytes) -> bytes:
        """Return an error event, as the provider writes it, to end a stream; `body` is its refusal, if there is one."""


def select(parts: Iterable[RoundPart], wanted: Callable[[RoundPart], bool], *, bound: bool) -> list[RoundPart]:
    """Return the wanted parts, each with the thoughts before it.

    Providers refuse thoughts without the part they led to, and thoughts side by side that were apart before. Thoughts
    that led to several calls are kept if one of the calls is, unless they are `bound` to the first call by its id.
    """
    kept: list[RoundPart] = []
    thoughts: list[RoundPart] = []
    passed_over = False
    for part in parts:
        if part.kind == "thought":
            if passed_over:
                thoughts = []
            thoughts.append(part)
            passed_over = False
        elif wanted(part):
            kept += [*thoughts, part]
            thoughts, passed_over = [], False
        else:
            thoughts = [] if bound else thoughts
            passed_over = True
    return kept


def add_usage(one: Json, other: Json) -> Json:
    """Return the usage of both: numbers are added up, other values are those of `other`, if it has them."""
    total = {**one, **other}
    for key in one.keys() & other.keys():
        a, b = one[key], other[key]
        if isinstance(a, dict) and isinstance(b, dict):
            total[key] = add_usage(a, b)
        elif _is_number(a) and _is_number(b):
            total[key] = a + b
        elif b is None:
            total[key] = a
    return total


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
