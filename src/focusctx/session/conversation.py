"""One conversation as a session follows it: the full history, the keys of its spans, and the view of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import is_
from typing import TYPE_CHECKING, NamedTuple

from ..config import FocusConfig
from ..pipeline.split import Count, Reader
from ..types import Message
from .ahead import Ahead
from .cut import Cut
from .keys import Chain
from .moment import Change, Moment, Place, view_of
from .store import StoredEvent

if TYPE_CHECKING:
    from .proposal import Proposal


class Call(NamedTuple):
    """The agent's last call: what the provider's cache remembers, as long as it does."""

    messages: int
    """Of the full history; they may not have been read yet."""
    time: float


class Known(NamedTuple):
    """What the store says of a conversation, from the span after the first so many on; None for nothing new."""

    version: int
    first: int | None = None
    events: Sequence[StoredEvent] = ()
    restored: Collection[str] = ()
    """Those that the events dropped and somebody wanted back."""
    is_all: bool = False
    """Whether the version counts no events but those on this chain: then there are none further on, or in forks."""


class Conversation:
    """Grows with the history. Between two changes its view only gets longer."""

    def __init__(self, reader: Reader, config: FocusConfig, count: Count, *, noted: bool) -> None:
        self.reader = reader
        self.decided = Cut()
        """What is dropped, as far as the store was heard."""
        self.cut = Cut()
        """As much of it as the view is without."""
        self.version = 0
        """The store's version of this conversation when it was last looked at."""
        self.knows_all = False
        """Whether it counts no events but those that are known here."""
        self.looked_up = 0
        """How many spans the store was asked about."""
        self.last_event: StoredEvent | None = None
        self.last_call: Call | None = None
        self.unmoved: int | None = None
        """How much of the last call's view still stands where it stood; None when all of it does."""
        self.ahead = Ahead()
        self.marked: Proposal | None = None
        """What was paid for and could not be acted on: it waits for better times."""
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
    def dropped(self) -> frozenset[int]:
        """The spans that are not whole in the view."""
        return self.cut.dropped

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
        return sum(self.reader.sizes[self.last_call.messages :]) if self.last_call else 0

    @property
    def moved(self) -> int:
        """Tokens that were sent before and stand elsewhere now: the provider has to read them again."""
        return 0 if self.unmoved is None else self.moved_by(self.tokens, self.unmoved)

    def now(self) -> Moment:
        return Moment(
            history=self.reader.history(),
            sizes=tuple(self.reader.sizes),
            keys=tuple(self.keys),
            place=Place(len(self._seen), self._chain.heads[-1] if self._seen else "", self.cut),
            decided=self.decided,
            restored=self._restored(),
            view=tuple(self._view),
            tokens=self.tokens,
            config=self._config,
            count=self._count,
            noted=self._noted,
        )

    def grow(self) -> None:
        """Take in what the reader has read since."""
        known = len(self._seen)
        same_objects = all(map(is_, self._seen, self.reader.messages))
        self._chain.extend(self.reader.messages[known:], self.reader.owners[known:])
        self._seen = list(self.reader.messages)
        if same_objects:
            self._view += self._seen[known:]
        else:  # the caller's own objects go back: others may have been written to by whoever got the last view
            self._view = view_of(self.reader.history(), self.cut, noted=self._noted)

    def take_over(self, old: Conversation) -> bool:
        """Go on where another object left off, if this is the same conversation in other objects."""
        known = len(old._seen)
        heads = self._chain.heads
        if not known or self.reader.wire is not old.reader.wire or heads[known - 1 : known] != old._chain.heads[-1:]:
            return False
        self.decided, self.cut, self._saved = old.decided, old.cut, old._saved
        self.version, self.knows_all, self.looked_up = old.version, old.knows_all, old.looked_up
        self.last_event = old.last_event
        self.last_call, self.ahead, self.marked, self.drew_ahead = old.last_call, old.ahead, old.marked, old.drew_ahead
        self.spent, self._ever_dropped = old.spent, old._ever_dropped
        self._view = view_of(self.reader.history(), self.cut, noted=self._noted)
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
            and self.cut == place.cut
            and not any(owner == 0 and message.get("role") == "user" for message, owner in since)
        )

    def learn(self, known: Known) -> None:
        """What the store says of the settled spans."""
        self.version, self.knows_all = known.version, known.is_all
        if known.first is None:
            return
        if known.first == 0:
            self.decided, self.last_event, self._ever_dropped = Cut(), None, set()
        for event in sorted(known.events, key=lambda event: event.index):
            self.heed(event)
        self.decided = self.decided.without(self._indices(known.restored))
        self.looked_up = self.settled

    def heed(self, event: StoredEvent, news: Cut | None = None) -> None:
        """An event that stands in the store; `news` is what it tells, where that need not be looked up."""
        if self.last_event is None or event.index >= self.last_event.index:
            self.last_event = event
        news = news or Cut(self._indices(event.dropped), self._indices(event.skeletons))
        self.decided = self.decided.then(news.dropped, news.skeletons)
        self._ever_dropped.update(event.dropped)

    def _restored(self) -> dict[int, str]:
        """The spans that were dropped and somebody wanted back: they stay."""
        dropped = self._indices(self._ever_dropped)
        return dict.fromkeys(sorted(dropped - self.decided.dropped), "restored") if dropped else {}

    def _indices(self, keys: Collection[str]) -> frozenset[int]:
        wanted = frozenset(keys)
        return frozenset(index for index, key in enumerate(self.keys, 1) if key in wanted) if wanted else frozenset()

    def moved_by(self, tokens: int, unmoved: int) -> int:
        """The same for a view of so many tokens, so many of which stand where they stood."""
        return max(tokens - unmoved - self.new_tokens, 0)

    def apply(self, change: Change) -> None:
        if change.moves:
            self.unmoved = change.unmoved if self.unmoved is None else min(self.unmoved, change.unmoved)
        self.cut = change.cut
        self.drew_ahead = False
        self._view = change.view
        self._saved = self.reader.tokens - change.tokens

    def called(self, time: float, messages: int | None = None) -> None:
        """The agent makes its call with this view, and with more messages behind it where so many are given."""
        self.last_call = Call(len(self._seen) if messages is None else messages, time)
        self.unmoved = None

    def is_cold(self, now: float, lifetime: float | None) -> bool:
        """Whether the provider has forgotten the prefix since the last call."""
        return self.last_call is not None and lifetime is not None and now - self.last_call.time > lifetime

    def view(self) -> list[Message]:
        """What to send, in the caller's own objects."""
        objects = self.reader.objects()
        return [objects.get(id(message), message) for message in self._view] if objects else list(self._view)
