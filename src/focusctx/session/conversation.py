"""One conversation: who it belongs to, its full history, the keys of its spans, and the view of it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from ..config import FocusConfig
from ..errors import StoreError
from ..pipeline.split import Count, Reader
from ..types import Message
from .cut import Cut
from .keys import Chain, digest
from .ledger import Ledger
from .moment import Change, Moment, Place, view_of
from .recall import answer, find, query_of, span_number, unavailable
from .sketches import Ahead
from .store import Archived, Store, StoredEvent, Totals

if TYPE_CHECKING:
    from .events import SessionEvent
    from .proposal import Proposal

_log = logging.getLogger("focusctx")
_REMEMBERED_EVENTS = 1000


class View(list[Message]):
    """The messages to send instead of a history, and the conversation they belong to."""

    __slots__ = ("conversation",)

    def __init__(self, messages: Sequence[Message], conversation: Conversation) -> None:
        super().__init__(messages)
        self.conversation = conversation

    def __reduce_ex__(self, protocol: object) -> tuple[type[list[Message]], tuple[list[Message]]]:
        """A copy is a plain list: frameworks copy messages, and a conversation has no copy."""
        return list, (list(self),)


class Call(NamedTuple):
    """The agent's last call: what the provider's cache remembers, as long as it does."""

    messages: int
    """Of the full history; they may not have been read yet."""
    time: float


class Known(NamedTuple):
    """The store's knowledge of a conversation, about the spans after the `first` ones; None for nothing new."""

    version: int
    first: int | None = None
    events: Sequence[StoredEvent] = ()
    restored: Collection[str] = ()
    """Those that the events dropped and somebody wanted back."""
    is_all: bool = False
    """Whether the version counts no events but those on this chain: then there are none further on, or in forks."""


class Conversation:
    """One run of an agent: a tenant, the caller's own id if there is one, and a chain of spans.

    `key` is a short name for logs and dashboards. `recall`, `handle_recall`, `restore`, `size`, `events` and `savings`
    speak of this conversation alone, from any thread. All else belongs to the session: it lets one call at a time use
    a conversation. Between two changes the view only gets longer.
    """

    def __init__(
        self,
        reader: Reader,
        chain: Chain,
        config: FocusConfig,
        count: Count,
        *,
        tenant: str,
        id: str | None,
        store: Store,
        ledger: Ledger,
        noted: bool,
    ) -> None:
        self.tenant = tenant
        self.id = id
        self.reader = reader
        self.key = digest(tenant, id or "", self._opening(chain), size=6)
        self.events: deque[SessionEvent] = deque(maxlen=_REMEMBERED_EVENTS)
        self.ledger = ledger
        self.decided = Cut()
        """What is dropped, as far as the store was heard."""
        self.cut = Cut()
        """As much of it as the view is without."""
        self.version = 0
        """The store's version of this conversation when it was last looked at."""
        self.knows_all = False
        """True if every stored event of this conversation is loaded."""
        self.looked_up = 0
        """How many spans the store was asked about."""
        self.last_event: StoredEvent | None = None
        self.last_call: Call | None = None
        self.unmoved: int | None = None
        """How much of the last call's view still stands where it stood; None when all of it does."""
        self.ahead = Ahead()
        self.marked: Proposal | None = None
        """Sketches that were paid for and could not be acted on: they wait for better times."""
        self.spent = 0.0
        """USD paid for sketches since the last event."""
        self.drew_ahead = False
        """Whether sketches were asked for ahead of time since the last event."""
        self._store = store
        self._config = config
        self._count = count
        self._noted = noted
        self._chain = chain
        self._seen: list[Message] = list(reader.messages)
        self._view: list[Message] = list(reader.messages)
        self._saved = 0
        self._ever_dropped: set[str] = set()

    @property
    def size(self) -> tuple[int, int]:
        """Tokens of the full history, and of the view that was sent instead."""
        return self.reader.tokens, self.tokens

    @property
    def savings(self) -> Totals:
        """Tokens and USD that this conversation saved and spent so far."""
        return self.ledger.totals

    def recall(self, query: str | int) -> list[Archived]:
        """The dropped span with that id (`s_7`) or number, verbatim, or those in which the words occur."""
        return self._found(str(query), self._archived())

    def handle_recall(self, arguments: str | Mapping[str, Any], *, restore: bool = False) -> str:
        """Answer a call of the recall tool; put the text into the history as its result.

        Where the call and its result will not be in the history, `restore` has what was found in the views to come.
        """
        query = query_of(arguments)
        try:
            archived = self._archived()
            found = self._found(query, archived)
            for span in found if restore else ():
                self.restore(span.index)
        except StoreError as error:
            _log.warning("nothing recalled: %s", error)
            return unavailable(query)
        return answer(query, found, archived)

    def restore(self, span: int | str) -> bool:
        """Have a dropped span, 7 or `s_7`, back in its place for the rest of this conversation.

        False if it is not dropped.
        """
        number = span_number(span)
        if number not in self.decided.dropped:
            return False
        self._store.restore(self.tenant, self.root, self.restore_key(self.keys[number - 1]))
        return True

    def restore_key(self, key: str) -> str:
        """The name under which a span's restore is stored: with an id it holds for conversations of that id only."""
        return key if self.id is None else digest(self.id, key)

    def __repr__(self) -> str:
        return f"<Conversation {self.key}, {self.reader.newest} steps>"

    def _archived(self) -> list[Archived]:
        """The originals of all spans that the view is without, in their order."""
        dropped = self.dropped
        if not dropped:
            return []
        events = self._store.events(self.tenant, self.keys[: self.settled])
        spans = {span.key: span for span in self._store.archived(self.tenant, list(events))}
        keys = (self.keys[index - 1] for index in sorted(dropped))
        return [spans[key] for key in keys if key in spans]

    def _found(self, query: str, archived: Sequence[Archived]) -> list[Archived]:
        found = find(query, archived)
        self.ledger.recalled(sum(span.tokens for span in found))
        return found

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
        """Tokens that came since the last call; 0 when there was none that this session knows of."""
        return sum(self.reader.sizes[self.last_call.messages :]) if self.last_call else 0

    @property
    def moved(self) -> int:
        """Tokens that were sent before and stand elsewhere now: the provider has to read them again."""
        return 0 if self.unmoved is None else self.moved_by(self.tokens, self.unmoved)

    @property
    def place(self) -> Place:
        return Place(len(self._seen), self._chain.heads[-1] if self._seen else "", self.cut)

    def now(self) -> Moment:
        return Moment(
            history=self.reader.history(),
            sizes=tuple(self.reader.sizes),
            keys=tuple(self.keys),
            place=self.place,
            decided=self.decided,
            restored=dict.fromkeys(sorted(self.restored), "restored"),
            view=tuple(self._view),
            tokens=self.tokens,
            config=self._config,
            count=self._count,
            noted=self._noted,
        )

    def grow(self) -> None:
        """Take in what the reader has read since."""
        known = len(self._seen)
        same_objects = len(self._view) > 0 and all(map(is_, self._seen, self.reader.messages))
        self._chain.extend(self.reader.messages[known:], self.reader.owners[known:])
        self._seen = list(self.reader.messages)
        if same_objects:
            self._view += self._seen[known:]
        else:  # the caller's own objects go back: others may have been written to by whoever got the last view
            self._view = view_of(self.reader.history(), self.cut, noted=self._noted)

    def go_back(self) -> None:
        """Forget what the reader has forgotten: its last step, and the words behind it."""
        known = len(self.reader.messages)
        del self._seen[known:], self._chain.heads[known:], self._chain.keys[self.reader.newest :]
        self._view = []

    def common(self, reader: Reader, chain: Chain) -> tuple[int, int]:
        """How many messages a history shares with this one, if it goes on from it, and how many of them are steps.

        It goes on from this one if it holds all its steps. Words behind the last step may be gone: some agents put a
        reminder behind every request that is not there in the next.
        """
        mine, its, known = self._chain.heads, chain.heads, len(self._seen)
        if reader.wire is not self.reader.wire or not known:
            return 0, 0
        steps = known
        while steps and self.reader.owners[steps - 1] == 0:
            steps -= 1
        if mine[-1:] == its[known - 1 : known]:
            return known, steps
        return (steps, steps) if steps and mine[steps - 1 : steps] == its[steps - 1 : steps] else (0, 0)

    def adopt(self, reader: Reader, chain: Chain) -> None:
        """Go on with a history that goes on from this one, read in other objects."""
        self.reader, self._chain, self._seen = reader, chain, list(reader.messages)
        self._view = view_of(reader.history(), self.cut, noted=self._noted)

    def is_ahead_of(self, other: Conversation) -> bool:
        """True if this one holds all messages of the other."""
        known = len(other._seen)
        return not known or self._chain.heads[known - 1 : known] == other._chain.heads[-1:]

    def goes_on_from(self, place: Place) -> bool:
        """Whether all that was there is still there, and the user has said nothing new since."""
        since = zip(self._seen[place.messages :], self.reader.owners[place.messages :], strict=True)
        return (
            self._chain.heads[place.messages - 1 : place.messages] == [place.head]
            and self.cut == place.cut
            and not any(owner == 0 and message.get("role") == "user" for message, owner in since)
        )

    def learn(self, known: Known) -> None:
        """Take in what the store says of the settled spans."""
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
        """Take in a stored event; `news` is the cut it made, where that need not be looked up."""
        if self.last_event is None or event.index >= self.last_event.index:
            self.last_event = event
        news = news or Cut(self._indices(event.dropped), self._indices(event.skeletons))
        self.decided = self.decided.then(news.dropped, news.skeletons)
        self._ever_dropped.update(event.dropped)

    @property
    def restored(self) -> frozenset[int]:
        """The spans that were dropped and somebody wanted back: they stay."""
        dropped = self._indices(self._ever_dropped)
        return dropped - self.decided.dropped if dropped else dropped

    def _indices(self, keys: Collection[str]) -> frozenset[int]:
        wanted = frozenset(keys)
        return frozenset(index for index, key in enumerate(self.keys, 1) if key in wanted) if wanted else frozenset()

    def moved_by(self, tokens: int, unmoved: int) -> int:
        """Tokens the provider must read again for a view of `tokens`, of which `unmoved` are still cached."""
        return max(tokens - unmoved - self.new_tokens, 0)

    def apply(self, change: Change) -> None:
        if change.moves:
            self.unmoved = change.unmoved if self.unmoved is None else min(self.unmoved, change.unmoved)
        self.cut = change.cut
        self.drew_ahead = False
        self._view = list(change.view)  # others may go on from the same change
        self._saved = self.reader.tokens - change.tokens

    def called(self, time: float, messages: int | None = None) -> None:
        """Record a call with this view, and with more behind it where the number of `messages` says so."""
        self.last_call = Call(len(self._seen) if messages is None else messages, time)
        self.unmoved = None

    def is_cold(self, now: float, lifetime: float | None) -> bool:
        """Whether the provider has forgotten the prefix since the last call."""
        return self.last_call is not None and lifetime is not None and now - self.last_call.time > lifetime

    def view(self) -> View:
        """The messages to send, in the caller's own objects."""
        objects = self.reader.objects()
        return View([objects.get(id(message), message) for message in self._view] if objects else self._view, self)

    def _opening(self, chain: Chain) -> str:
        """The chain key of everything up to the user's first words."""
        spoken = (place for place, message in enumerate(self.reader.messages) if message.get("role") == "user")
        return chain.heads[next(spoken, -1)] if chain.heads else ""
