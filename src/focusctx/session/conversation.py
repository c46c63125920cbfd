"""One conversation: who it belongs to, its full history, the chain of its spans, and the view of it.

The chain identifies it: a message is identified by a hash of its content and of the key before it, a span by its last
message. So any process recognises the same history without a session id, forks share the keys of their common past,
and an edited or reordered past has different keys from there on. User messages between two spans belong to the second
one. Cache marks are ignored: agents move them at every step.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from operator import is_
from typing import TYPE_CHECKING, Any

from ..config import FocusConfig
from ..errors import StoreError
from ..pipeline.outline import Parts
from ..pipeline.split import Count, Reader
from ..types import Message, Owner
from ..wire.part import is_by_user, unmarked
from .proposal import Change, LeftOut, Place, Proposal, Snapshot, view_of
from .recall import answer, excerpt, find, named_units, query_of, span_number, unavailable
from .sketches import EarlyDraw
from .store import Archived, Store, StoredEvent, Totals

if TYPE_CHECKING:
    from .events import Ledger, SessionEvent
    from .steps import StoredDecisions

_log = logging.getLogger("focusctx")
_REMEMBERED_EVENTS = 1000
_KEY_BYTES = 16


class Chain:
    """The keys of a growing history; each message is hashed once."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        """`keys[i - 1]` belongs to span `s_i`. The last one still changes while its span grows."""
        self.heads: list[str] = []
        """`heads[n - 1]` identifies the first n messages."""

    @classmethod
    def of(cls, messages: Iterable[Message], owners: Iterable[Owner]) -> Chain:
        chain = cls()
        chain.extend(messages, owners)
        return chain

    def extend(self, messages: Iterable[Message], owners: Iterable[Owner]) -> None:
        for message, owner in zip(messages, owners, strict=True):
            before = self.heads[-1] if self.heads else ""
            head = blake2b(before.encode() + canonical(message), digest_size=_KEY_BYTES).hexdigest()
            self.heads.append(head)
            index = owner if isinstance(owner, int) else max(owner)
            if index > len(self.keys):
                self.keys.append(head)
            elif index:
                self.keys[-1] = head


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
class Call:
    """The agent's last call, which the provider's cache still holds for a while."""

    messages: int
    """Number of messages of the full history; they may not have been read yet."""
    time: float


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
        self.decided = LeftOut()
        """The spans that stored events leave out, as of the last look at the store."""
        self.left_out = LeftOut()
        """The part of `decided` that the view leaves out."""
        self.version = 0
        """The store's version of this conversation at the last look."""
        self.knows_all = False
        """True if every stored event of this conversation is loaded."""
        self.looked_up = 0
        """Number of spans that the store was asked about."""
        self.last_event: StoredEvent | None = None
        self.last_call: Call | None = None
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
        self._config = config
        self._count = count
        self._noted = noted
        self._chain = chain
        self._seen: list[Message] = list(reader.messages)
        self._view: list[Message] = list(reader.messages)
        self._saved = 0
        self._passages_back: dict[str, Parts] = {}  # chain key of a span → its restored passages
        self._cut_at: dict[str, int] = {}  # chain key of a span → the newest span when it was first left out

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
        if not passages:
            self._store.restore(self.tenant, self.root, self.restore_key(key))
            return True
        if not passages <= self.passages_of(key) - self.decided.shown.get(number, frozenset()):
            return False
        for name in (*(f"{key}.{passage}" for passage in passages), f"{key}."):
            self._store.restore(self.tenant, self.root, self.restore_key(name))
        return True

    def passages_of(self, key: str) -> frozenset[int]:
        """Return the numbers of the passages of the span with this chain key."""
        history = self.reader.history()
        if history.outlines is None:
            return frozenset()
        span = history.spans[self.keys.index(key)]
        return frozenset(passage.number for passage in history.outlines.of(span).passages)

    def restore_key(self, key: str) -> str:
        """Return the key under which a restore is stored: with an id, it holds for conversations of that id only."""
        return key if self.id is None else digest(self.id, key)

    def __repr__(self) -> str:
        return f"<Conversation {self.key}, {self.reader.newest} steps>"

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
        asked = named_units(query)
        found = [self._excerpt(span, asked.get(span.index, ())) for span in find(query, archived)]
        self.ledger.recalled(sum(span.tokens for span in found))
        return found

    def _excerpt(self, archived: Archived, numbers: Collection[int]) -> Archived:
        """Return a span with only these passages; the whole span for none."""
        if not numbers:
            return archived
        span = self.reader.history().spans[archived.index - 1]
        return excerpt(archived, span, numbers, self.reader.wire, self._count)

    @property
    def keys(self) -> Sequence[str]:
        """`keys[i - 1]` is the chain key of span i."""
        return self._chain.keys

    @property
    def dropped(self) -> frozenset[int]:
        """The spans that the view does not show whole."""
        return self.left_out.spans

    @property
    def root(self) -> str:
        """The key of the first span, which the conversation shares with all its forks."""
        return self._chain.keys[0] if self._chain.keys else ""

    @property
    def settled(self) -> int:
        """Number of spans that can no longer change: all but the newest, which may still get results."""
        return max(len(self._chain.keys) - 1, 0)

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

    @property
    def place(self) -> Place:
        return Place(len(self._seen), self._chain.heads[-1] if self._seen else "", self.left_out)

    def now(self) -> Snapshot:
        """Take a snapshot, for which sketches are sampled and decided."""
        return Snapshot(
            history=self.reader.history(),
            sizes=tuple(self.reader.sizes),
            keys=tuple(self.keys),
            place=self.place,
            decided=self.decided,
            restored=dict.fromkeys(sorted(self.restored), "restored"),
            passages_back=self.passages_back,
            cut_at={index: self._cut_at[key] for index, key in enumerate(self.keys, 1) if key in self._cut_at},
            view=tuple(self._view),
            tokens=self.tokens,
            config=self._config,
            count=self._count,
            noted=self._noted,
        )

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

    def adopt(self, reader: Reader, chain: Chain) -> None:
        """Switch to a history that continues this one, read from other objects."""
        self.reader, self._chain, self._seen = reader, chain, list(reader.messages)
        self._view = view_of(reader.history(), self.left_out, noted=self._noted)

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

    def learn(self, stored: StoredDecisions) -> None:
        """Add the decisions that the store holds about the settled spans."""
        self.version, self.knows_all = stored.version, stored.is_all
        if stored.first is None:
            return
        if stored.first == 0:
            self.decided, self.last_event, self._cut_at = LeftOut(), None, {}
            self._passages_back.clear()
        for event in sorted(stored.events, key=lambda event: event.index):
            self.add_event(event)
        self._passages_back |= stored.passages
        self.decided = self.decided.without(self._indices(stored.restored)).showing(self.passages_back)
        self.looked_up = self.settled

    def add_event(self, event: StoredEvent, news: LeftOut | None = None) -> None:
        """Add a stored event; `news` is what it left out, if that is known already."""
        if self.last_event is None or event.index >= self.last_event.index:
            self.last_event = event
        if news is None:
            shown = {index: event.shortened.get(key) for index, key in enumerate(self.keys, 1)}
            parts = {index: frozenset(numbers) for index, numbers in shown.items() if numbers is not None}
            news = LeftOut(self._indices(event.dropped), parts)
        self.decided = self.decided.then(news)
        for key in event.dropped:
            self._cut_at.setdefault(key, event.index)

    @property
    def restored(self) -> frozenset[int]:
        """The spans that were dropped and then restored: they stay."""
        dropped = self._indices(self._cut_at)
        return dropped - self.decided.spans if dropped else dropped

    @property
    def passages_back(self) -> dict[int, Parts]:
        """The restored passages of spans: they stay, whatever else of these spans goes."""
        back = self._passages_back
        return {index: back[key] for index, key in enumerate(self.keys, 1) if key in back} if back else {}

    def _indices(self, keys: Collection[str]) -> frozenset[int]:
        wanted = frozenset(keys)
        return frozenset(index for index, key in enumerate(self.keys, 1) if key in wanted) if wanted else frozenset()

    def moved_by(self, tokens: int, unmoved: int) -> int:
        """Tokens the provider must read again for a view of `tokens`, of which `unmoved` are still cached."""
        return max(tokens - unmoved - self.new_tokens, 0)

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
        self.last_call = Call(len(self._seen) if messages is None else messages, time)
        self.unmoved = None

    def is_cold(self, now: float, lifetime: float | None) -> bool:
        """True if the provider's cache has dropped the prefix since the last call."""
        return self.last_call is not None and lifetime is not None and now - self.last_call.time > lifetime

    def view(self) -> View:
        """Return the messages to send, in the caller's own objects."""
        objects = self.reader.objects()
        return View([objects.get(id(message), message) for message in self._view] if objects else self._view, self)

    def _opening(self, chain: Chain) -> str:
        """Return the chain key of everything up to the user's first words."""
        spoken = (place for place, message in enumerate(self.reader.messages) if is_by_user(message))
        return chain.heads[next(spoken, -1)] if chain.heads else ""


def digest(*parts: str, size: int = _KEY_BYTES) -> str:
    """Hash a list of texts; different lists have different hashes, also when they join to the same text."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def canonical(message: Message) -> bytes:
    """Encode the message's content in one canonical form."""
    text = _spell(message)
    if '"cache_control"' in text or '"content":[' in text:
        text = _spell(unmarked(message))
    return text.encode("utf-8", "surrogatepass")


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


_spell = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_plain).encode
