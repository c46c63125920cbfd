"""Where decisions last: the seam between a session and memory, SQLite or Redis.

Everything is scoped by tenant: what one stored no other can see. A span is known by its chain key, a
conversation by its root, the chain key of its first span. A store keeps three things: the events, each with the
originals of the spans it dropped; which of those somebody wanted back; and totals of what was saved and spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from json import JSONEncoder
from typing import Any, Protocol

from ..types import Message
from ..wire import Kind, recognise


class Spelled(dict[str, Any]):
    """A message that came as JSON and still knows the bytes, so that nobody has to spell it again.

    For callers that never edit a message; a copy of one is a plain dict.
    """

    __slots__ = ("json",)

    def __init__(self, content: Message, json: bytes) -> None:
        super().__init__(content)
        self.json = json

    @classmethod
    def made(cls, content: Message) -> Spelled:
        """One that did not come, but stands among those that did."""
        return cls(content, _spell(content).encode())

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)


_spell = JSONEncoder(separators=(",", ":")).encode
"""In ASCII: half a surrogate pair has no other spelling that everybody can read."""


@dataclass(frozen=True, slots=True)
class Archived:
    """A dropped span, verbatim, with what was known when it went."""

    key: str
    index: int
    """Its number in the history it was dropped from: `s_7` has index 7."""
    messages: tuple[Message, ...]
    tokens: int
    utility: float
    reason: str
    event: str = ""
    """The key of the event that dropped it, once it comes from a store."""

    @property
    def text(self) -> str:
        """Thought, action and observation in one text."""
        wire = recognise(self.messages)
        parts = [part for place, message in enumerate(self.messages) for part in wire.read(message, place)]
        turns = [part for part in parts if part.kind is Kind.TURN]
        results = [part.text for part in parts if part.kind is not Kind.TURN]
        return "\n".join(filter(None, [*(turn.thought for turn in turns), *(turn.action for turn in turns), *results]))


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One compression, as every process that shares the store sees it."""

    key: str
    """The chain key of the newest span it could decide about: the one before the newest of all."""
    index: int
    """The number of the newest span when it happened."""
    tokens_before: int
    tokens_after: int
    dropped: tuple[str, ...]
    """Chain keys of the spans it dropped; none when it found all of them needed."""
    time: float
    """Seconds since the epoch."""
    skeletons: tuple[str, ...] = ()
    """Those of the dropped spans of which it left a skeleton."""
    balance: float = 0.0
    """USD that this conversation had saved by then, less what was spent on it: below zero it still owes something."""
    conversation: str = ""
    """The caller's id of the conversation that it happened in, or its key."""


@dataclass(frozen=True, slots=True)
class Totals:
    """A tenant's savings and spending, in tokens and USD. Adds up."""

    events: int = 0
    tokens_saved: int = 0
    """Input tokens the agent's calls did not have to carry, summed over calls."""
    saved: float = 0.0
    drafts: float = 0.0
    """Paid for sketches, as far as their price is known; `draft_cost` says whether all of it is."""
    rereads: float = 0.0
    """Lost because a moved prefix had to be read uncached."""
    recalls: float = 0.0
    """Paid for spans that came back."""
    unpriced: int = 0
    """How often sketches were drawn at a price that is not known."""

    @property
    def draft_cost(self) -> float | None:
        """USD paid for sketches; None where some had no known price."""
        return None if self.unpriced else self.drafts

    @property
    def net(self) -> float | None:
        """USD saved less all that was paid; None where the price of some sketches is not known."""
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
    """All methods may be called from any thread. Those that write have written when they return.

    A store whose answers take microseconds may say so with an attribute `quick = True`: async programs then ask it
    on their event loop. Writing, and all other stores, get a thread; one that has its own may have a method
    `on_a_thread(function)`, which returns an `asyncio.Future`. `lasting = False` says that it ends with the program:
    then nothing needs to be written to it at that point.
    """

    def version(self, tenant: str, root: str) -> int:
        """A number that grows with every change to this conversation; 0 before the first. Cheap."""

    def events(self, tenant: str, keys: Sequence[str]) -> dict[str, StoredEvent]:
        """The events that happened at these chain keys."""

    def recent(self, tenant: str, most: int) -> list[StoredEvent]:
        """The tenant's newest events, in all its conversations, the newest first."""

    def commit(self, tenant: str, root: str, event: StoredEvent, archived: Sequence[Archived]) -> StoredEvent:
        """Store the event with the originals of what it drops, all or nothing.

        The first event stored under a key stands: a later one changes nothing and gets the first one back.
        """

    def archived(self, tenant: str, events: Sequence[str]) -> list[Archived]:
        """The originals that were stored with the events of these keys, event by event."""

    def restore(self, tenant: str, root: str, key: str) -> None:
        """Have this span back, for good: no event drops it any more. Its original stays."""

    def restored(self, tenant: str, keys: Sequence[str]) -> frozenset[str]:
        """Those of the chain keys whose spans somebody wanted back."""

    def add(self, tenant: str, totals: Totals) -> None:
        """Add to the tenant's totals."""

    def totals(self, tenant: str) -> Totals:
        """All that was added."""

    def close(self) -> None:
        """Let go of files and connections."""
