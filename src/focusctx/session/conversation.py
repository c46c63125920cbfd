"""A conversation: its full history, the decisions about it and its view; and the search for the one to continue.

A session finds the conversation that a history continues by the caller's id and by the chain of its keys, and reads
only what is new. A lock is held only during the search. A conversation is in use by one call at a time. A call that
comes for it meanwhile does not wait: it works on an object of its own, which reads the same decisions from the store.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

from ..compressor import Focus
from ..errors import StoreError
from ..pipeline.outline import Parts
from ..pipeline.split import Reader, check_list, plain_message
from ..types import Message
from ..wire import recognise, wire_named
from ..wire.part import is_by_user
from .fork import ForkSafe
from .proposal import Change, Draws, EarlyDraw, LeftOut, Place, Proposal, Snapshot, view_of
from .recall import answer, excerpt, find, named_units, query_of, span_number, unavailable
from .store import Archived, Chain, Store, StoredEvent, Totals, digest

if TYPE_CHECKING:
    from .events import Ledger, SessionEvent

T = TypeVar("T")

_log = logging.getLogger("focusctx")
_REMEMBERED_EVENTS = 1000
MOST = 1000
"""Most conversations that a session holds. One that was released continues from the store when it comes back."""
MOST_TOKENS = 40_000_000
"""Most tokens of their histories, all together."""
_COMPARED = 64
"""Newest messages that are compared at every call with those read before."""
_FAR = 8
"""Messages among which the user's first words are looked for."""


class View(list[Message]):
    """The messages to send instead of a history, with the conversation that they belong to."""

    __slots__ = ("conversation",)

    def __init__(self, messages: Sequence[Message], conversation: Conversation) -> None:
        super().__init__(messages)
        self.conversation = conversation

    def __repr__(self) -> str:
        return f"<View of {len(self)} messages, conversation {self.conversation.key}>"

    def __reduce_ex__(self, protocol: object) -> tuple[type[list[Message]], tuple[list[Message]]]:
        """Copy as a plain list: frameworks copy messages, and a conversation cannot be copied."""
        return list, (list(self),)


@dataclass(frozen=True, slots=True)
class LastCall:
    """The agent's last call, which the provider's cache still holds for a while."""

    messages: int
    """Number of messages of the full history; they may not have been read yet."""
    time: float


@dataclass(frozen=True, slots=True)
class StoredDecisions:
    """The store's decisions about a conversation, for the spans after the first `first`; None if nothing is new."""

    version: int
    first: int | None = None
    events: Sequence[StoredEvent] = ()
    restored: Collection[str] = ()
    """Keys of spans that the events dropped and that were restored."""
    passages: Mapping[str, Parts] = field(default_factory=dict)
    """Passages that were restored, by the keys of their spans."""
    is_all: bool = False
    """True if the version counts only events on this chain: then there are none further on, or in forks."""


class Conversation:
    """One run of an agent: a tenant, the caller's own id if there is one, and a chain of spans.

    `key` is a short name for logs and dashboards. `archived`, `recall`, `handle_recall`, `restore`, `size`, `events`
    and `savings` concern this conversation alone and may be used from any thread. Everything else belongs to the
    session, which lets one call at a time use a conversation. Between two changes the view only gets longer.
    """

    def __init__(
        self,
        reader: Reader,
        chain: Chain,
        focus: Focus,
        *,
        tenant: str,
        id: str | None,
        store: Store,
        ledger: Ledger,
        noted: bool,
    ) -> None:
        spoken = (place for place, message in enumerate(reader.messages) if is_by_user(message))
        opening = chain.heads[next(spoken, -1)] if chain.heads else ""  # the key of the user's first words
        self.tenant = tenant
        self.id = id
        self.reader = reader
        self.key = digest(tenant, id or "", opening, size=6)
        self.events: deque[SessionEvent] = deque(maxlen=_REMEMBERED_EVENTS)
        self.ledger = ledger
        self.decided = LeftOut()
        """The spans that stored events leave out, as of the last look at the store."""
        self.passages_back: dict[int, Parts] = {}
        """The restored passages of spans: they stay, whatever else of these spans goes."""
        self.left_out = LeftOut()
        """The part of `decided` that the view leaves out."""
        self.version = 0
        """The store's version of this conversation at the last look."""
        self.knows_all = False
        """True if every stored event of this conversation is loaded."""
        self.looked_up = 0
        """Number of spans that the store was asked about."""
        self.last_event: StoredEvent | None = None
        self.last_call: LastCall | None = None
        self.unmoved: int | None = None
        """Tokens at the beginning of the last call's view that have not moved since; None if nothing has."""
        self.early_draw = EarlyDraw()
        self.deferred: Proposal | None = None
        """A proposal that is paid for and could not be applied yet: it did not pay, or could not be stored."""
        self.spent = 0.0
        """USD paid for sketches since the last event."""
        self.drew_ahead = False
        """True if sketches were asked for ahead of time since the last event."""
        self._store = store
        self._focus = focus
        self._noted = noted
        self._chain = chain
        self._seen: list[Message] = list(reader.messages)
        self._view: list[Message] = list(reader.messages)
        self._saved = 0
        self._left_out_at: dict[int, int] = {}  # span → the newest span when it was first left out

    def __repr__(self) -> str:
        return f"<Conversation {self.key}, {self.reader.newest} steps>"

    @property
    def size(self) -> tuple[int, int]:
        """Tokens of the full history, and of the view sent in its place."""
        return self.reader.tokens, self.tokens

    @property
    def savings(self) -> Totals:
        """Tokens and USD saved and spent in this conversation so far."""
        return self.ledger.totals

    def recall(self, query: str | int) -> list[Archived]:
        """Return the left-out span with that id (`s_7`) or number, verbatim, or those in which the words occur.

        The id of a passage (`s_7.2`) gives the span with only that passage.
        """
        return self._found(str(query), self.archived())

    def handle_recall(self, arguments: str | Mapping[str, Any], *, restore: bool = False) -> str:
        """Answer a call of the recall tool; put the text into the history as its result.

        If the call and its result will not be in the history, `restore` brings the spans found back into later views.
        """
        query = query_of(arguments)
        try:
            archived = self.archived()
            found = self._found(query, archived)
            for span in found if restore else ():
                self.restore(span.index)
        except StoreError as error:
            _log.warning("nothing was recalled, because the store could not be read: %s", error)
            return unavailable(query)
        return answer(query, found, archived)

    def restore(self, span: int | str) -> bool:
        """Bring span 7 or `s_7` back whole for the rest of this conversation, or one passage of it, `s_7.2`.

        False if it is not left out.
        """
        number = span_number(span)
        if number not in self.decided.spans:
            return False
        key = self.keys[number - 1]
        passages = named_units(str(span)).get(number, frozenset())
        if passages and not passages <= self._passages_of(key) - self.decided.shown.get(number, frozenset()):
            return False
        # A name that ends with a dot marks a span of which some passage is back.
        for name in (*(f"{key}.{passage}" for passage in passages), f"{key}.") if passages else (key,):
            self._store.restore(self.tenant, self.root, self._restore_key(name))
        return True

    def archived(self) -> list[Archived]:
        """Return the originals of all spans left out of the view, in their order."""
        dropped = self.dropped
        if not dropped:
            return []
        events = self._store.events(self.tenant, self.keys[: self.settled])
        spans = {span.key: span for span in self._store.archived(self.tenant, list(events))}
        keys = (self.keys[index - 1] for index in sorted(dropped))
        return [spans[key] for key in keys if key in spans]

    def _found(self, query: str, archived: Sequence[Archived]) -> list[Archived]:
        """Return the spans that a query asks for; if it names passages of a span, only with these."""
        asked, found = named_units(query), find(query, archived)
        for place, span in enumerate(found):
            if passages := asked.get(span.index):
                whole = self.reader.history().spans[span.index - 1]
                found[place] = excerpt(span, whole, passages, self.reader.wire, self._focus.count)
        self.ledger.recalled(sum(span.tokens for span in found))
        return found

    def _passages_of(self, key: str) -> frozenset[int]:
        """Return the numbers of the passages of the span with this chain key."""
        history = self.reader.history()
        if history.outlines is None:
            return frozenset()
        span = history.spans[self.keys.index(key)]
        return frozenset(passage.number for passage in history.outlines.of(span).passages)

    def _restored_of(self, names: Iterable[str]) -> list[str]:
        """Return the names of spans and passages under which something was restored."""
        named = {self._restore_key(name): name for name in names}
        return [named[key] for key in self._store.restored(self.tenant, list(named))] if named else []

    def _restored_passages(self, key: str) -> Parts:
        """Return the restored passages of the span with this chain key."""
        named = {f"{key}.{passage}": passage for passage in self._passages_of(key)}
        return frozenset(named[name] for name in self._restored_of(named))

    def _restore_key(self, name: str) -> str:
        """Return the key under which a restore is stored: with an id, it holds for conversations of that id only."""
        return name if self.id is None else digest(self.id, name)

    # Its history and its place in it.

    @property
    def keys(self) -> Sequence[str]:
        """`keys[i - 1]` is the chain key of span i."""
        return self._chain.keys

    @property
    def root(self) -> str:
        """The key of the first span, which the conversation shares with all its forks."""
        return self._chain.keys[0] if self._chain.keys else ""

    @property
    def settled(self) -> int:
        """Number of spans that can no longer change: all but the newest, which may still get results."""
        return max(len(self._chain.keys) - 1, 0)

    @property
    def place(self) -> Place:
        return Place(len(self._seen), self._chain.heads[-1] if self._seen else "", self.left_out)

    def grow(self) -> None:
        """Add the messages that the reader has read since."""
        known = len(self._seen)
        same_objects = len(self._view) > 0 and all(map(is_, self._seen, self.reader.messages))
        self._chain.extend(self.reader.messages[known:], self.reader.owners[known:])
        self._seen = list(self.reader.messages)
        if same_objects:
            self._view += self._seen[known:]
        else:  # return the caller's own objects: other objects, in the last view, may have been edited since
            self._view = view_of(self.reader.history(), self.left_out, noted=self._noted)

    def shorten(self) -> None:
        """Remove what the reader has removed: its last step, and the words behind it."""
        known = len(self.reader.messages)
        del self._seen[known:], self._chain.heads[known:], self._chain.keys[self.reader.newest :]
        self._view = []

    def adopt(self, reader: Reader, chain: Chain) -> None:
        """Switch to a history that continues this one, read from other objects."""
        self.reader, self._chain, self._seen = reader, chain, list(reader.messages)
        self._view = view_of(reader.history(), self.left_out, noted=self._noted)

    def common(self, reader: Reader, chain: Chain) -> tuple[int, int]:
        """Count the messages that a history continuing this one shares with it, and those up to the last step.

        A history continues this one if it holds all its steps. Words behind the last step may be gone: some agents
        append a reminder to every request and leave it out of the next. (0, 0) for any other history.
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

    def is_ahead_of(self, other: Conversation) -> bool:
        """True if this one holds all messages of the other."""
        known = len(other._seen)
        return not known or self._chain.heads[known - 1 : known] == other._chain.heads[-1:]

    def goes_on_from(self, place: Place) -> bool:
        """True if everything up to `place` is unchanged and the user has said nothing new since."""
        since = zip(self._seen[place.messages :], self.reader.owners[place.messages :], strict=True)
        return (
            self._chain.heads[place.messages - 1 : place.messages] == [place.head]
            and self.left_out == place.left_out
            and not any(owner == 0 and is_by_user(message) for message, owner in since)
        )

    # The decisions about it.

    def ask_store(self) -> StoredDecisions:
        """Read the decisions of any process on this chain. Asks only about new spans, unless something changed.

        A decision was made for the future of one history. It holds where that history continues, and not in a shorter
        one (a fork, or the same task started again) that may still continue differently, so only the chain's own events
        count. May run on its own thread and be abandoned: it changes nothing.
        """
        store, tenant = self._store, self.tenant
        version = store.version(tenant, self.root)  # read first: later changes are found next time
        is_same = version == self.version
        if is_same and (self.knows_all or not version):
            return StoredDecisions(version, is_all=True)
        first = self.looked_up if is_same else 0
        keys = self.keys[first : self.settled]
        if not keys:
            return StoredDecisions(version)
        events = list(store.events(tenant, keys).values())
        dropped = sorted({key for event in events for key in event.dropped})
        found = self._restored_of([name for key in dropped for name in (key, f"{key}.")])
        spans = [name for name in found if not name.endswith(".")]
        passages = {name[:-1]: self._restored_passages(name[:-1]) for name in found if name.endswith(".")}
        return StoredDecisions(version, first, events, spans, passages, is_all=first == 0 and len(events) == version)

    def learn(self, stored: StoredDecisions) -> None:
        """Add the decisions that the store holds about the settled spans."""
        self.version, self.knows_all = stored.version, stored.is_all
        if stored.first is None:
            return
        if stored.first == 0:
            self.decided, self.last_event, self._left_out_at = LeftOut(), None, {}
            self.passages_back = {}
        for event in sorted(stored.events, key=lambda event: event.index):
            self.add_event(event)
        self.passages_back |= self._by_index(stored.passages)
        restored = self._by_index(dict.fromkeys(stored.restored))
        self.decided = self.decided.without(restored).showing(self.passages_back)
        self.looked_up = self.settled

    def add_event(self, event: StoredEvent) -> None:
        """Add a stored event."""
        if self.last_event is None or event.index >= self.last_event.index:
            self.last_event = event
        shortened = {key: frozenset(passages) for key, passages in event.shortened.items()}
        left_out = self._by_index({key: shortened.get(key) for key in event.dropped})
        self.decided = self.decided.then(LeftOut(left_out))
        self._left_out_at = dict.fromkeys(left_out, event.index) | self._left_out_at

    @property
    def restored(self) -> frozenset[int]:
        """The spans that were dropped and then restored: they stay."""
        return frozenset(self._left_out_at) - self.decided.spans

    def _by_index(self, values: Mapping[str, T]) -> dict[int, T]:
        """Return values given by chain key by the numbers of their spans."""
        return {index: values[key] for index, key in enumerate(self.keys, 1) if key in values} if values else {}

    # Its view, and the calls with it.

    @property
    def dropped(self) -> frozenset[int]:
        """The spans that the view does not show whole."""
        return self.left_out.spans

    @property
    def tokens(self) -> int:
        """Tokens of the view."""
        return self.reader.tokens - self._saved

    @property
    def new_tokens(self) -> int:
        """Tokens added since the last call; 0 if this session knows of none."""
        return sum(self.reader.sizes[self.last_call.messages :]) if self.last_call else 0

    @property
    def moved(self) -> int:
        """Tokens sent before at another place, which the provider must read again."""
        return 0 if self.unmoved is None else self.moved_by(self.tokens, self.unmoved)

    def moved_by(self, tokens: int, unmoved: int) -> int:
        """Tokens the provider must read again for a view of `tokens`, of which `unmoved` are still cached."""
        return max(tokens - unmoved - self.new_tokens, 0)

    def view(self) -> View:
        """Return the messages to send, in the caller's own objects."""
        objects = self.reader.objects()
        return View([objects.get(id(message), message) for message in self._view] if objects else self._view, self)

    def now(self) -> Snapshot:
        """Take a snapshot, for which sketches are sampled and decided."""
        return Snapshot(
            focus=self._focus,
            history=self.reader.history(),
            sizes=tuple(self.reader.sizes),
            keys=tuple(self.keys),
            place=self.place,
            decided=self.decided,
            restored=dict.fromkeys(sorted(self.restored), "restored"),
            passages_back=dict(self.passages_back),
            left_out_at=dict(self._left_out_at),
            view=tuple(self._view),
            tokens=self.tokens,
            noted=self._noted,
        )

    def apply(self, change: Change) -> None:
        """Switch to the changed view."""
        if change.moves:
            self.unmoved = change.unmoved if self.unmoved is None else min(self.unmoved, change.unmoved)
        self.left_out = change.left_out
        self.drew_ahead = False
        self._view = list(change.view)  # a copy: other conversations may apply the same change
        self._saved = self.reader.tokens - change.tokens

    def called(self, time: float, messages: int | None = None) -> None:
        """Record a call with this view, or with one that appends to it, up to `messages` messages in all."""
        self.last_call = LastCall(len(self._seen) if messages is None else messages, time)
        self.unmoved = None

    def pay(self, cost: float | None) -> None:
        """Record the cost of sketches; None for an unknown price."""
        if cost != 0:
            self.spent += cost or 0.0
            self.ledger.drew(cost)

    def stop_sketches(self, draws: Draws) -> None:
        """Stop sketches that were requested ahead and that nobody will use, and record their cost."""
        self.pay(self.early_draw.discard(draws))


@dataclass(frozen=True, slots=True)
class Group:
    """The conversations that one history could continue: those with the same id, format and first words."""

    id: str | None
    format: str | None
    opening: str


class Conversations(ForkSafe):
    """The conversations of a session. `begin` makes a new one; `frozen` is as for `Session`.

    `release` is called with each conversation that is no longer held.
    """

    def __init__(
        self,
        focus: Focus,
        begin: Callable[[Reader, Chain, str | None], Conversation],
        release: Callable[[Conversation], None],
        *,
        frozen: bool,
    ) -> None:
        super().__init__()
        self._focus = focus
        self._begin = begin
        self._release = release
        self._frozen = frozen
        self._warned_of_unknown = False
        self._warned_of_doubts = False
        self._groups: dict[Group, list[Conversation]] = {}
        self._held: OrderedDict[Conversation, tuple[Group, int]] = OrderedDict()
        """Each conversation with its group and its tokens, most recently used last."""
        self._tokens = 0
        self._in_use: set[Conversation] = set()

    def __iter__(self) -> Iterator[Conversation]:
        """Iterate over a copy, most recently used first."""
        with self._lock:
            return iter(list(reversed(self._held)))

    @contextmanager
    def using(
        self,
        messages: Sequence[Message],
        format: str | None,
        id: str | None,
        *,
        continues: Conversation | None = None,
        name: str | None = None,
    ) -> Iterator[Conversation]:
        """Use the conversation of these messages, with all of them read, for this call alone.

        A caller that tells conversations apart itself gives the `name` of this one, and the object that it
        `continues`, if there is one.
        """
        check_list(messages, len(messages) if isinstance(messages, list | tuple) else 0)
        group = Group(id, format, f"name {name}" if name else _opening(messages))
        conversation = self._grown(messages, group) or self._read(messages, group, name, continues)
        try:
            if not self._frozen:
                conversation = self._current(conversation, messages, group)
            self._warn(conversation.reader)
            try:
                yield conversation
            except Exception:
                self.forget(conversation)  # it may be half changed
                raise
        finally:
            self._put_back(conversation)

    @contextmanager
    def if_free(self, conversation: Conversation) -> Iterator[bool]:
        """Use this very conversation; False if another call does, or if it is no longer held."""
        with self._lock:
            free = conversation in self._held and conversation not in self._in_use
            if free:
                self._in_use.add(conversation)
        try:
            yield free
        finally:
            if free:
                self._put_back(conversation)

    def forget(self, conversation: Conversation) -> None:
        with self._lock:
            self._remove(conversation)
        self._release(conversation)

    # Read the messages.

    def _grown(self, messages: Sequence[Message], group: Group) -> Conversation | None:
        """Find a held conversation that only got longer, and read the new messages: the usual case."""
        try:
            conversation = self._continued_by(messages, group)
        except BaseException:
            for compared in self._idle(group):
                self.forget(compared)  # it may be half read
            raise
        if conversation is None:
            return None
        try:
            reader = conversation.reader
            known = len(reader.messages)
            check_list(messages, known)
            if known < conversation.place.messages:
                conversation.shorten()
            if not (group.format or reader.fits(messages[known:])):
                self._put_back(conversation)
                return None
            reader.extend(messages[known:])
            conversation.grow()
        except BaseException:
            self.forget(conversation)  # half read
            raise
        return conversation

    def _read(
        self, messages: Sequence[Message], group: Group, name: str | None, continues: Conversation | None
    ) -> Conversation:
        """Read a conversation that is new here, or held in other objects."""
        check_list(messages)
        reader, chain = self._read_all(messages, group.format)
        conversation = self._resumed_by(reader, chain, group)
        if conversation is not None:
            conversation.adopt(reader, chain)
            return conversation
        return self._add(reader, chain, group, name, continues)

    def _current(self, conversation: Conversation, messages: Sequence[Message], group: Group) -> Conversation:
        """Read the conversation again if messages were edited in place, as agents do, mostly with new ones.

        Comparing all of them takes time, and is done only before a decision.
        """
        newest = 0 if conversation.tokens > self._focus.config.budget else _COMPARED
        if conversation.reader.is_current(newest):
            return conversation
        reader, chain = self._read_all(messages, group.format)
        if conversation.common(reader, chain) > (0, 0):
            conversation.adopt(reader, chain)
            return conversation
        return self._add(reader, chain, group, conversation.key, conversation)

    def _read_all(self, messages: Sequence[Message], format: str | None) -> tuple[Reader, Chain]:
        wire = wire_named(format) if format else recognise(map(plain_message, messages))
        reader = Reader(wire, self._focus.config, self._focus.count, watched=not self._frozen)
        reader.extend(messages)
        chain = Chain()
        chain.extend(reader.messages, reader.owners)
        return reader, chain

    def _warn(self, reader: Reader) -> None:
        """Log what is unclear about a history; once is enough, since it comes again at every step."""
        if not self._warned_of_unknown and (unknown := reader.unknown()):
            self._warned_of_unknown = True
            _log.warning("%s", unknown)
        large = reader.tokens > self._focus.config.budget  # a chat within the budget loses nothing in any reading
        if large and not self._warned_of_doubts and (doubts := reader.doubts()):
            self._warned_of_doubts = True
            _log.warning("%s", doubts)

    # Hold them, and find them again.

    def _continued_by(self, messages: Sequence[Message], group: Group) -> Conversation | None:
        """Use the longest conversation whose messages are all at the beginning of the list."""
        with self._lock:
            idle = self._idle(group)
            continued = [known for known in idle if known.reader.continues(messages)]
            longest = max(continued, key=lambda known: len(known.reader.messages), default=None)
            found = (
                longest
                or next((known for known in idle if known.reader.takes_marks(messages)), None)
                or next((known for known in idle if known.reader.takes_other_words(messages)), None)
            )
            if found:
                self._in_use.add(found)
            return found

    def _resumed_by(self, reader: Reader, chain: Chain, group: Group) -> Conversation | None:
        """Use the conversation that a history continues by its chain, whichever objects it is in."""
        with self._lock:
            shared = {known: known.common(reader, chain) for known in self._idle(group)}
            best = max(shared, key=shared.__getitem__, default=None)
            if best is None or shared[best] == (0, 0):
                return None
            self._in_use.add(best)
            return best

    def _idle(self, group: Group) -> list[Conversation]:
        return [known for known in self._groups.get(group, ()) if known not in self._in_use]

    def _add(
        self, reader: Reader, chain: Chain, group: Group, name: str | None, edited: Conversation | None
    ) -> Conversation:
        """Begin a conversation, which this call uses, under a key that is unique in its group.

        It takes over the events and savings of one whose past was `edited`.
        """
        conversation = self._begin(reader, chain, group.id)
        if edited is not None:
            conversation.events, conversation.ledger, edited.events = edited.events, edited.ledger, deque()
            self.forget(edited)
        with self._lock:
            members = self._groups.setdefault(group, [])
            taken = {known.key for known in members}
            name = conversation.key = name or conversation.key
            number = 1
            while conversation.key in taken:
                number += 1
                conversation.key = f"{name}-{number}"
            members.append(conversation)
            self._held[conversation] = group, 0
            self._in_use.add(conversation)
        return conversation

    def _put_back(self, conversation: Conversation) -> None:
        """End the use of a conversation, and release the least recently used ones if there are too many."""
        with self._lock:
            self._in_use.discard(conversation)
            if conversation in self._held:
                group, before = self._held.pop(conversation)
                self._held[conversation] = group, conversation.reader.tokens
                self._tokens += conversation.reader.tokens - before
            over = len(self._held) > MOST or self._tokens > MOST_TOKENS
            gone: list[Conversation] = []
            for known in list(self._held)[:-1] if over else ():
                if len(self._held) <= MOST and self._tokens <= MOST_TOKENS:
                    break
                if known not in self._in_use:
                    self._remove(known)
                    gone.append(known)
        for known in gone:
            self._release(known)

    def _remove(self, conversation: Conversation) -> None:
        self._in_use.discard(conversation)
        if conversation not in self._held:
            return
        group, tokens = self._held.pop(conversation)
        self._tokens -= tokens
        members = self._groups[group]
        members.remove(conversation)
        if not members:
            del self._groups[group]


def _opening(messages: Sequence[Message]) -> str:
    """Return the user's first words, without cache marks: a quick way to tell most conversations apart."""
    for message in messages[:_FAR]:
        if isinstance(message, Mapping) and is_by_user(message):
            content = message.get("content", message.get("parts"))
            if isinstance(content, list) and content and isinstance(content[0], Mapping):
                content = content[0].get("text")
            return content if isinstance(content, str) else ""
    return ""
