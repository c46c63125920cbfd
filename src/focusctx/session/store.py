"""The store interface of a session, its keys and records, and the store in memory, which shows how to implement it.

The stores in which decisions outlive the process are in `stores/`.

All data is scoped by tenant: no tenant sees another's. A span is identified by its chain key, a conversation by its
root, the chain key of its first span. A store keeps three things: events, each with the originals of the spans it
dropped; the spans that were restored on request; and totals of savings and costs.

A message is identified by a hash of its content and of the key before it, a span by its last message. So any process
recognises the same history without a session id, forks share the keys of their common past, and an edited or reordered
past has different keys from there on. User messages between two spans belong to the second one. Cache marks are
ignored: agents move them at every step.

Records are encoded as JSON without losing any character or kind of number. All stores do that, also the one in memory:
the archive holds copies, so an agent that edits its messages later does not edit the archive. A message parsed from
JSON is stored in its original bytes.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Any, Generic, Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from ..errors import StoreError
from ..types import Message, Owner
from ..wire import Kind, recognise
from ..wire.part import unmarked
from .fork import ForkSafe
from .retention import DAY, IN_USE, Limits

T = TypeVar("T")

_KEY_BYTES = 16
MEMORY_LIMITS = Limits(max_age=30 * DAY, max_size=512 * 1024**2)
_EVENT_SIZE = 1000
"""Approximate bytes of an event besides its originals."""
_REMEMBERED_VERSIONS = 10_000
"""Removed conversations whose version is remembered, so that counting does not restart at 1."""

_Name: TypeAlias = tuple[str, str]
"""A tenant, and the root of a conversation or a chain key."""


class Spelled(dict[str, Any]):
    """A message parsed from JSON that keeps its original bytes, so that it need not be encoded again.

    For callers that never edit a message. A copy is a plain dict.
    """

    __slots__ = ("json",)

    def __init__(self, content: Message, json: bytes) -> None:
        super().__init__(content)
        self.json = json

    @classmethod
    def made(cls, content: Message) -> Spelled:
        """Encode a message that was made here, to use it among parsed ones."""
        return cls(content, _encode_ascii(content).encode())

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)


@dataclass(frozen=True, slots=True)
class Archived:
    """A dropped span, verbatim, with the data known when it was dropped."""

    key: str
    index: int
    """Its number in the history it was dropped from: `s_7` has index 7."""
    messages: tuple[Message, ...]
    tokens: int
    utility: float
    reason: str
    event: str = ""
    """The key of the event that dropped it; set when it is read from a store."""

    @property
    def text(self) -> str:
        """Thoughts, actions and observations joined into one text."""
        wire = recognise(self.messages)
        parts = [part for place, message in enumerate(self.messages) for part in wire.read(message, place)]
        turns = [part for part in parts if part.kind is Kind.TURN]
        results = [part.text for part in parts if part.kind is not Kind.TURN]
        return "\n".join(filter(None, [*(turn.thought for turn in turns), *(turn.action for turn in turns), *results]))


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One compression, shared by every process that uses the store."""

    key: str
    """The chain key of the newest span the event could decide about: the last but one."""
    index: int
    """The number of the newest span at that time."""
    tokens_before: int
    tokens_after: int
    dropped: tuple[str, ...]
    """Chain keys of the spans that it no longer shows whole; empty if all were needed."""
    time: float
    """Seconds since the epoch."""
    shortened: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Dropped spans that are shown in part, with the numbers of the passages shown."""
    balance: float = 0.0
    """USD saved on this conversation so far, less its costs; negative while they are not yet recovered."""
    conversation: str = ""
    """The caller's id of the conversation that it happened in, or its key."""


@dataclass(frozen=True, slots=True)
class Totals:
    """A tenant's savings and costs, in tokens and USD. Instances can be added."""

    events: int = 0
    """Number of changed views."""
    tokens_saved: int = 0
    """Input tokens left out of the agent's calls, summed over calls."""
    saved: float = 0.0
    """USD that these tokens would have cost."""
    drafts: float = 0.0
    """USD paid for sketches of known price; `draft_cost` is None if some have none."""
    rereads: float = 0.0
    """USD lost because a changed prefix had to be read uncached."""
    recalls: float = 0.0
    """USD paid for recalled spans."""
    unpriced: int = 0
    """Number of times that sketches were sampled at an unknown price."""

    @property
    def draft_cost(self) -> float | None:
        """USD paid for sketches; None if some had no known price."""
        return None if self.unpriced else self.drafts

    @property
    def net(self) -> float | None:
        """USD saved less all costs; None if some sketches had no known price."""
        return None if self.unpriced else self.saved - self.drafts - self.rereads - self.recalls

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.events + other.events,
            self.tokens_saved + other.tokens_saved,
            self.saved + other.saved,
            self.drafts + other.drafts,
            self.rereads + other.rereads,
            self.recalls + other.recalls,
            self.unpriced + other.unpriced,
        )


class Store(Protocol):
    """Storage for sessions. All methods may be called from any thread; writes are complete when they return.

    A store that answers within microseconds may set `quick = True`: async programs then read from it on their event
    loop. Writes, and all calls to other stores, run on a thread; a store with its own thread may offer a method
    `on_a_thread(function)`, which returns an `asyncio.Future`. `lasting = False` means that the data ends with the
    program, so nothing needs to be written at exit. A store for which many writes in one transaction are cheaper may
    offer `together()`, a context manager that makes one of what its thread writes.
    """

    def version(self, tenant: str, root: str) -> int:
        """Return a number that grows with every change to this conversation; 0 before the first. Must be cheap."""

    def events(self, tenant: str, keys: Sequence[str]) -> dict[str, StoredEvent]:
        """Return the events stored under these chain keys."""

    def recent(self, tenant: str, most: int) -> list[StoredEvent]:
        """Return the tenant's newest events across all conversations, newest first."""

    def commit(self, tenant: str, root: str, event: StoredEvent, archived: Sequence[Archived]) -> StoredEvent:
        """Store the event and the originals of the spans it drops, all or nothing.

        The first event stored under a key wins: a later one changes nothing, and the first is returned.
        """

    def archived(self, tenant: str, events: Sequence[str]) -> list[Archived]:
        """Return the originals stored with the events of these keys, event by event."""

    def restore(self, tenant: str, root: str, key: str) -> None:
        """Keep this span for good: no event drops it any more. Its original stays in the store."""

    def restored(self, tenant: str, keys: Sequence[str]) -> frozenset[str]:
        """Return the given chain keys whose spans were restored."""

    def add(self, tenant: str, totals: Totals) -> None:
        """Add to the tenant's totals."""

    def totals(self, tenant: str) -> Totals:
        """Return the sum of all totals added for the tenant."""

    def close(self) -> None:
        """Close files and connections."""


@dataclass(slots=True)
class _StoredConversation:
    version: int = 0
    used: float = 0.0
    size: int = 0
    events: list[str] = field(default_factory=list)
    restored: set[str] = field(default_factory=set)


class MemoryStore(ForkSafe):
    """The default store: dictionaries that end with the process. It defines how the other stores behave.

    Everything is kept by tenant and root, or by tenant and chain key.
    """

    quick = True
    lasting = False

    def __init__(self, limits: Limits = MEMORY_LIMITS, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.limits = limits
        self._clock = clock
        self._size = 0
        self._conversations: OrderedDict[_Name, _StoredConversation] = OrderedDict()
        """Least recently used first."""
        self._removed: OrderedDict[_Name, int] = OrderedDict()
        self._events: dict[_Name, StoredEvent] = {}
        self._originals: dict[_Name, bytes] = {}
        self._restored: set[_Name] = set()
        self._totals: dict[str, Totals] = {}

    def version(self, tenant: str, root: str) -> int:
        name = tenant, root
        with self._lock:
            if (conversation := self._conversations.get(name)) is None:
                return self._removed.get(name, 0)
            conversation.used = self._clock()
            self._conversations.move_to_end(name)
            return conversation.version

    def events(self, tenant: str, keys: Sequence[str]) -> dict[str, StoredEvent]:
        with self._lock:
            return {key: self._events[tenant, key] for key in keys if (tenant, key) in self._events}

    def recent(self, tenant: str, most: int) -> list[StoredEvent]:
        with self._lock:
            found = (event for (owner, _), event in reversed(self._events.items()) if owner == tenant)
            return list(islice(found, most))

    def commit(self, tenant: str, root: str, event: StoredEvent, archived: Sequence[Archived]) -> StoredEvent:
        originals = pack_all(archived)
        with self._lock:
            first = self._events.setdefault((tenant, event.key), event)
            if first is event:
                self._originals[tenant, event.key] = originals
                conversation = self._grow(tenant, root)
                conversation.events.append(event.key)
                conversation.size += len(originals) + _EVENT_SIZE
                self._size += len(originals) + _EVENT_SIZE
                self._make_room()
        return first

    def archived(self, tenant: str, events: Sequence[str]) -> list[Archived]:
        with self._lock:
            found = [(self._originals[tenant, key], key) for key in events if (tenant, key) in self._originals]
        return [span for data, key in found for span in unpack_all(data, key)]

    def restore(self, tenant: str, root: str, key: str) -> None:
        with self._lock:
            if (tenant, key) not in self._restored:
                self._restored.add((tenant, key))
                self._grow(tenant, root).restored.add(key)

    def restored(self, tenant: str, keys: Sequence[str]) -> frozenset[str]:
        with self._lock:
            return frozenset(key for key in keys if (tenant, key) in self._restored)

    def add(self, tenant: str, totals: Totals) -> None:
        with self._lock:
            self._totals[tenant] = self._totals.get(tenant, Totals()) + totals

    def totals(self, tenant: str) -> Totals:
        with self._lock:
            return self._totals.get(tenant, Totals())

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _grow(self, tenant: str, root: str) -> _StoredConversation:
        name = tenant, root
        conversation = self._conversations.get(name)
        if conversation is None:
            conversation = self._conversations[name] = _StoredConversation(self._removed.pop(name, 0))
        conversation.version += 1
        conversation.used = self._clock()
        self._conversations.move_to_end(name)
        return conversation

    def _make_room(self) -> None:
        """Remove conversations over the age or size limit. Each is removed once, so the cost per event is small."""
        now, limits = self._clock(), self.limits
        while self._conversations:
            name, oldest = next(iter(self._conversations.items()))
            idle = now - oldest.used
            is_old = limits.max_age is not None and idle > limits.max_age
            is_too_much = limits.max_size is not None and self._size > limits.max_size and idle > IN_USE
            if not is_old and not is_too_much:
                return
            self._remove(name, oldest)

    def _remove(self, name: _Name, conversation: _StoredConversation) -> None:
        tenant, _ = name
        del self._conversations[name]
        for key in conversation.events:
            del self._events[tenant, key], self._originals[tenant, key]
        self._restored -= {(tenant, key) for key in conversation.restored}
        self._size -= conversation.size
        self._removed[name] = conversation.version + 1  # sessions that know the old version must look again
        if len(self._removed) > _REMEMBERED_VERSIONS:
            self._removed.popitem(last=False)


class PerStore(Generic[T]):
    """Makes one object per store, which all sessions over that store share; it lives as long as the store."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.made: WeakKeyDictionary[Store, T] = WeakKeyDictionary()

    def __call__(self, store: Store) -> T:
        try:
            return self.made.setdefault(store, self._make())
        except TypeError:  # a custom store that is not hashable or weakly referenceable
            return self._make()


class Chain:
    """The keys of a growing history; each message is hashed once."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        """`keys[i - 1]` belongs to span `s_i`. The last one still changes while its span grows."""
        self.heads: list[str] = []
        """`heads[n - 1]` identifies the first n messages."""

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


@lru_cache(maxsize=1024)
def scope(tenant: str) -> str:
    """Return the tenant's hash, used in files and on servers: always short, and reveals no name or key."""
    return blake2b(_bytes(tenant), digest_size=_KEY_BYTES).hexdigest()


def digest(*parts: str, size: int = _KEY_BYTES) -> str:
    """Hash a list of texts; different lists have different hashes, also when they join to the same text."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(_bytes(joined), digest_size=size).hexdigest()


def canonical(message: Message) -> bytes:
    """Encode the message's content in one canonical form."""
    text = _encode_sorted(message)
    if '"cache_control"' in text or '"content":[' in text:
        text = _encode_sorted(unmarked(message))
    return _bytes(text)


_EVENT = tuple(field.name for field in fields(StoredEvent))
_ARCHIVED = tuple(field.name for field in fields(Archived))
_NOT_IN_COLUMNS = ("messages", "event")


def pack(event: StoredEvent) -> bytes:
    return _bytes(_encode({name: getattr(event, name) for name in _EVENT}))


def unpack(data: bytes) -> StoredEvent:
    """Decode an event, ignoring fields that only another version has."""
    try:
        values = {name: value for name, value in _decode(data).items() if name in _EVENT}
        shortened = {key: tuple(parts) for key, parts in values.get("shortened", {}).items()}
        return StoredEvent(**{**values, "dropped": tuple(values["dropped"]), "shortened": shortened})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(f"a stored event cannot be read: {error!r}") from error


class Originals(tuple[Archived, ...]):
    """The originals of an event, which can be packed before it is certain that the event will happen."""

    @cached_property
    def packed(self) -> bytes:
        columns = {name: [getattr(span, name) for span in self] for name in _ARCHIVED if name not in _NOT_IN_COLUMNS}
        messages = b",".join(b"[" + b",".join(_spelled(span)) + b"]" for span in self)
        return _bytes(_encode({**columns, "messages": []})[:-2]) + messages + b"]}"


def pack_all(spans: Sequence[Archived]) -> bytes:
    """Encode the originals of an event by column: the keys of all spans, their numbers and so on, then the messages.

    An event may drop a hundred spans at once; encoding each by itself takes longer.
    """
    return (spans if isinstance(spans, Originals) else Originals(spans)).packed


def unpack_all(data: bytes, event: str) -> list[Archived]:
    """Decode the originals stored with the event of that key."""
    try:
        columns = _decode(data)
        messages = columns["messages"]
        if not messages:
            return []
        columns |= {"messages": map(tuple, messages), "event": [event] * len(messages)}
        return [Archived(*row) for row in zip(*(columns[name] for name in _ARCHIVED), strict=True)]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StoreError(f"stored originals cannot be read: {error!r}") from error


def _spelled(span: Archived) -> list[bytes]:
    try:
        return [_message(message) for message in span.messages]
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{span.key} cannot be stored as JSON: {error}") from error


def _message(message: Message) -> bytes:
    return message.json if isinstance(message, Spelled) else _bytes(_encode(message))


def _bytes(text: str) -> bytes:
    # A model may emit half a surrogate pair; strict UTF-8 would refuse it.
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> Any:
    return json.loads(data.decode("utf-8", "surrogatepass"))


def _plain(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _plain_or_text(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode
_encode_sorted = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_plain_or_text
).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":")).encode
"""ASCII is the only encoding of half a surrogate pair that every parser accepts."""
