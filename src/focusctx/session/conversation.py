"""One conversation as a session follows it: the full history, the keys of its spans, and the view of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import TYPE_CHECKING

from ..config import FocusConfig
from ..pipeline.budget import pinned_spans
from ..pipeline.companions import companions_of
from ..pipeline.rebuild import rebuild
from ..pipeline.split import Count, Reader, read_history
from ..types import History, Message
from .ahead import Ahead, Marked
from .keys import Chain
from .recall import note
from .store import StoredEvent

if TYPE_CHECKING:
    from ..compressor import Drafted


@dataclass(frozen=True, slots=True)
class Call:
    """The agent's last call: what the provider's cache remembers, as long as it does."""

    full: int
    """Tokens of the full history."""
    view: int
    """Tokens of what was sent instead."""
    time: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where a conversation stood when sketches were drawn."""

    messages: int
    head: str
    dropped: frozenset[int]


@dataclass(frozen=True, slots=True)
class Change:
    """Another view of the same history."""

    dropped: frozenset[int]
    view: list[Message]
    tokens: int
    unmoved: int
    """Tokens at its beginning that stand where they stood."""
    moves: bool
    """Whether it is another view at all: a skeleton of a very short step is that step."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the store says of a conversation, from the span after the first so many on; None for nothing new."""

    version: int
    first: int | None = None
    dropped: Collection[str] = ()
    """Those that the events dropped and nobody restored."""
    events: Sequence[StoredEvent] = ()


class Conversation:
    """Grows with the history. Between two changes its view only gets longer."""

    def __init__(self, reader: Reader, config: FocusConfig, count: Count, *, noted: bool) -> None:
        self.reader = reader
        self.decided: frozenset[int] = frozenset()
        """The spans that are dropped, as far as the store was heard."""
        self.dropped: frozenset[int] = frozenset()
        """Those of them that the view is without."""
        self.version = 0
        """The store's version of this conversation when it was last looked at."""
        self.looked_up = 0
        """How many spans the store was asked about."""
        self.last_event: StoredEvent | None = None
        self.last_call: Call | None = None
        self.unmoved: int | None = None
        """How much of the last call's view still stands where it stood; None when all of it does."""
        self.ahead = Ahead()
        self.marked: Marked | None = None
        self.spent = 0.0
        """USD paid for sketches since the last event."""
        self.drew_ahead = False
        """Whether sketches were asked for ahead of time since the last event."""
        self._config = config
        self._count = count
        self._noted = noted
        self._chain = Chain()
        self._seen: list[Message] = []
        self._view: list[Message] = []
        self._saved = 0
        self._ever_dropped: set[str] = set()
        self.grow()

    @property
    def keys(self) -> Sequence[str]:
        """`keys[i - 1]` is the chain key of span i."""
        return self._chain.keys

    @property
    def root(self) -> str:
        """The key of the first span: what the conversation and all its forks have in common."""
        return self._chain.keys[0] if self._chain.keys else ""

    @property
    def settled(self) -> int:
        """How many spans can change no more: all but the newest, to which results may still come."""
        return max(len(self._chain.keys) - 1, 0)

    @property
    def tokens(self) -> int:
        """The size of the view."""
        return self.reader.tokens - self._saved

    @property
    def new_tokens(self) -> int:
        """What came since the last call; 0 when there was none that this session knows of."""
        return self.reader.tokens - self.last_call.full if self.last_call else 0

    @property
    def moved(self) -> int:
        """Tokens that were sent before and stand elsewhere now: the provider has to read them again."""
        return 0 if self.unmoved is None else self.moved_by(self.tokens, self.unmoved)

    @property
    def place(self) -> Place:
        return Place(len(self._seen), self._chain.heads[-1] if self._seen else "", self.dropped)

    def grow(self) -> None:
        """Take in what the reader has read since."""
        known = len(self._seen)
        same_objects = all(map(is_, self._seen, self.reader.messages))
        self._chain.extend(self.reader.messages[known:], self.reader.owners[known:])
        self._seen = list(self.reader.messages)
        if same_objects:
            self._view += self._seen[known:]
        else:  # the caller's own objects go back: others may have been written to by whoever got the last view
            self._view = self._without(self.reader.history(), self.dropped)

    def take_over(self, old: Conversation) -> bool:
        """Go on where another object left off, if this is the same conversation in other objects."""
        known = len(old._seen)
        heads = self._chain.heads
        if not known or self.reader.wire is not old.reader.wire or heads[known - 1 : known] != old._chain.heads[-1:]:
            return False
        self.decided, self.dropped, self._saved = old.decided, old.dropped, old._saved
        self.version, self.looked_up, self.last_event = old.version, old.looked_up, old.last_event
        self.last_call, self.ahead, self.marked, self.drew_ahead = old.last_call, old.ahead, old.marked, old.drew_ahead
        self.spent, self._ever_dropped = old.spent, old._ever_dropped
        self._view = self._without(self.reader.history(), self.dropped)
        return True

    def replaces(self, old: Conversation) -> bool:
        """Whether this is a conversation whose past, as the other object knows it, was edited."""
        common = min(len(self._seen), len(old._seen))
        return self.root == old.root != "" and self._chain.heads[common - 1] != old._chain.heads[common - 1]

    def goes_on_from(self, place: Place) -> bool:
        """Whether all that was there is still there, and the user has said nothing new since."""
        since = zip(self._seen[place.messages :], self.reader.owners[place.messages :], strict=True)
        return (
            self._chain.heads[place.messages - 1 : place.messages] == [place.head]
            and self.dropped == place.dropped
            and not any(owner == 0 and message.get("role") == "user" for message, owner in since)
        )

    def learn(self, known: Known) -> None:
        """What the store says of the settled spans."""
        self.version = known.version
        if known.first is None:
            return
        if known.first == 0:
            self.decided, self.last_event, self._ever_dropped = frozenset(), None, set()
        self.decided |= self._indices(known.dropped)
        events = [*known.events, *filter(None, [self.last_event])]
        self.last_event = max(events, key=lambda event: event.index, default=None)
        self._ever_dropped.update(*(event.dropped for event in known.events))
        self.looked_up = self.settled

    def heed(self, event: StoredEvent) -> None:
        """An event that stands in the store."""
        self.last_event = event
        self.decided |= self._indices(event.dropped)
        self._ever_dropped.update(event.dropped)

    def restored(self) -> dict[int, str]:
        """The spans that were dropped and somebody wanted back: they stay."""
        return dict.fromkeys(sorted(self._indices(self._ever_dropped) - self.decided), "restored")

    def _indices(self, keys: Collection[str]) -> frozenset[int]:
        return frozenset(index for index, key in enumerate(self.keys, 1) if key in keys) if keys else frozenset()

    def change_to(self, decided: Collection[int]) -> Change:
        """The view without these spans, as far as they may go."""
        history = self.reader.history()
        dropped = _droppable(history, decided, self._config)
        view = self._without(history, dropped)
        same = _common(self._view, view)
        moves = same < max(len(view), len(self._view))
        sizes = self._sizes(view)
        return Change(dropped, view, sum(sizes), sum(sizes[:same]), moves)

    def moved_by(self, tokens: int, unmoved: int) -> int:
        """The same for a view of so many tokens, so many of which stand where they stood."""
        return max(tokens - unmoved - self.new_tokens, 0)

    def apply(self, change: Change) -> None:
        if change.moves:
            self.unmoved = change.unmoved if self.unmoved is None else min(self.unmoved, change.unmoved)
        self.dropped = change.dropped
        self.drew_ahead = False
        self._view = change.view
        self._saved = self.reader.tokens - change.tokens

    def mark(self, drafted: Drafted, change: Change) -> None:
        """Remember sketches that could not be acted on."""
        saves, behind = self.tokens - change.tokens, change.tokens - change.unmoved
        self.marked = Marked(drafted, self.place, self.tokens, saves, behind)

    def called(self, time: float) -> None:
        """The agent makes its call with this view."""
        self.last_call = Call(self.reader.tokens, self.tokens, time)
        self.unmoved = None

    def is_cold(self, now: float, lifetime: float | None) -> bool:
        """Whether the provider has forgotten the prefix since the last call."""
        return self.last_call is not None and lifetime is not None and now - self.last_call.time > lifetime

    def view(self) -> list[Message]:
        return list(self._view)

    def remaining(self) -> History:
        """The history of the spans that are still there: what an event decides about."""
        history = self.reader.history()
        spans = tuple(span for span in history.spans if span.index not in self.dropped)
        # The messages stay out: the view is always rebuilt from the full history.
        return replace(history, spans=spans, messages=(), owners=(), tokens=self.tokens)

    def _without(self, history: History, spans: Collection[int]) -> list[Message]:
        kept = [span.index for span in history.spans if span.index not in spans]
        view = rebuild(history, kept, self._config.dropped)
        if self._noted and spans:
            place = next(place for place, owner in enumerate(history.owners) if owner)
            while history.format == "anthropic" and place and view[place - 1].get("role") == "system":
                place -= 1  # what the model answers to must stay before its answer
            view.insert(place, note(spans))
        return view

    def _sizes(self, view: Sequence[Message]) -> list[int]:
        """The tokens of each message of a view; only what was made for it is counted afresh."""
        known = dict(zip(map(id, self.reader.messages), self.reader.sizes, strict=True))
        return [self._size(message) if (size := known.get(id(message))) is None else size for message in view]

    def _size(self, message: Message) -> int:
        return read_history([message], self._config, self._count, format=self.reader.wire.name).tokens


def _droppable(history: History, decided: Collection[int], config: FocusConfig) -> frozenset[int]:
    """Those of the spans that may go here. The chain they were decided on may have gone on in another way:
    in a fork one of them may be the newest, or hold the reasoning that the newest goes on from."""
    kept = {span.index for span in history.spans if span.index not in decided}
    kept |= pinned_spans(history, config.pin).keys()
    kept |= companions_of(history, kept, config).keys()
    return frozenset(decided) - kept


def _common(before: Sequence[Message], after: Sequence[Message]) -> int:
    """How many messages the two lists share at the beginning."""
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new and old != new:
            return place
    return min(len(before), len(after))
