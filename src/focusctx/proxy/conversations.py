"""The conversations that go through the proxy, one object each.

A request belongs to the conversation of the same caller, run and model whose last request it continues. Two runs that
begin alike are one conversation as long as their messages are equal, and two from where they differ.

Only `LiveConversation` calls the session. If a request adds so little that no decision can be due, the session is not
asked: what was sent for the last request is sent again, followed by the new messages. Most such requests are neither
decoded nor counted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from functools import partial
from itertools import islice
from typing import TypeAlias

from ..pipeline.split import check_list, tokens_of
from ..session.conversation import Conversation, LastCall, View
from ..session.events import BYTES_PER_TOKEN, Growth, SessionEvent
from ..session.recall import answer
from ..session.session import Session
from ..session.store import Totals, digest
from ..wire import wire_named
from .request import LARGE, Decoded, Request, continues, decode_messages, memory_of, most_tokens, resumes, usual_tokens

_MOST = 1000
"""Conversations held in memory. A dropped one continues from the store when its next request comes."""
_MOST_BYTES = 256 * 1024 * 1024
"""Bytes of memory that their last requests may take, as `Request.size` estimates them."""
_STEPS = 500
"""Requests of one conversation whose sizes are kept for the dashboard."""
_HEAD = 128
"""Bytes at the beginning of a body by which earlier requests of the same agent are found."""
_CANDIDATES = 64
"""Most earlier requests that are compared with a new one to read it by."""
_SLOW_TO_COUNT = 128 * 1024
"""Bytes whose tokens take so long to count that other requests would notice."""

OnThread: TypeAlias = Callable[[int, Callable[[], Conversation]], Awaitable[Conversation]]
"""Calls a function on a thread, given the bytes it has to process."""


@dataclass(frozen=True, slots=True)
class Key:
    """The caller, the provider and the model of a conversation, and the caller's name for the run."""

    tenant: str
    upstream: str
    format: str
    model: str
    id: str | None = None
    caller: str = ""
    """Name of the caller, if it has a token of its own."""


@dataclass(frozen=True, slots=True)
class AgentStep:
    """One request of the agent."""

    time: float
    """Seconds since the epoch."""
    full: int
    """Tokens of the history it sent."""
    sent: int
    """Tokens that were sent instead (in a dry run: would have been sent)."""
    added: float
    """Seconds that compression added to it."""
    exact: bool = True
    """False if the tokens are estimated, because no decision could be due."""


class LiveConversation:
    """One conversation: its last request, what was sent for it, and its statistics."""

    def __init__(self, id: str, key: Key, root: str, session: Session, generation: int = 0) -> None:
        self.id = id
        self.generation = generation
        """Generation of sessions that its session belongs to."""
        self.key = key
        self.root = root
        self.session = session
        self.conversation: Conversation | None = None
        """The session's object; None until the session is asked for the first time."""
        self.request: Request | None = None
        """The last request, to read the next one by."""
        self.size = 0
        """Bytes of memory that its last request takes, as `Request.size` estimates them."""
        self.in_use = False
        """True while the session works on a request: another request then gets an object of its own."""
        self.was_looked_at = False
        """True if the session has been asked about any request."""
        self.sent: list[bytes] | None = None
        """Messages that were sent for the last request; None if all of them were."""
        self.started = time.time()
        self.steps: deque[AgentStep] = deque(maxlen=_STEPS)
        self.restored: dict[int, float] = {}
        """Time at which each span was restored from the dashboard."""
        self.messages: list[bytes] = []
        """Messages of the last request that went through."""
        self._decoded = Decoded([], [])
        self._can_append = True
        """False from the start of a look until one has succeeded: what was sent last is not known."""
        self._counted = 0, 0
        """Tokens at the last look: of all messages, and of those that were sent."""
        self._growth = Growth()
        """Tokens added since then."""
        self._uncounted: list[bytes] = []
        """Messages since then that were not counted."""
        self._unseen: LastCall | None = None
        """The last request, if the session has not been asked about any."""
        self._last_event: SessionEvent | None = None
        self._net: float | None = 0.0

    # ---------------------------------------------------------------------------------------- requests that add little

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens of the last request, and of what was sent; estimated for messages that were not counted."""
        full, sent = self._counted
        more = self._growth.tokens + usual_tokens(self._uncounted)
        return full + more, sent + more

    def append(self, messages: list[bytes]) -> bool:
        """Record a request that only adds messages, too few for a decision; False if the session must look at it."""
        if not (self._can_append and continues(messages, self.messages)):
            if self.was_looked_at:
                return False
            self._start_over()  # words after its last step are gone, and the session knows of none
        new = messages[len(self.messages) :]
        grown = self._grown(messages, new)
        if grown is None or (self.was_looked_at and not self._session_agrees(len(messages))):
            return False
        if not self.was_looked_at:
            self._unseen = LastCall(len(messages), self.session._clock())
        self.messages = messages
        self._growth, self._uncounted = grown
        if self.sent is not None:
            self.sent = self.sent + new
        return True

    def _grown(self, messages: list[bytes], new: list[bytes]) -> tuple[Growth, list[bytes]] | None:
        """Return the growth since the last look, and the messages not counted in it; None if a decision may be due.

        New messages are counted, with earlier ones that were not, only if the number of their bytes does not settle it.
        """
        if memory_of(new) > LARGE:
            return None  # even a search for media in them takes long: the session does that on a thread
        most, uncounted = most_tokens(new, self.key.format), self._uncounted + new
        if most is not None:
            growth = Growth(self._growth.tokens, self._growth.most + most, step=most // BYTES_PER_TOKEN)
            if self._is_quiet(growth):
                return growth, uncounted
        if sum(map(len, uncounted)) > _SLOW_TO_COUNT or not self._is_quiet(self._growth):
            return None
        if not self._is_quiet(Growth(self._growth.tokens + usual_tokens(uncounted), step=usual_tokens(new))):
            return None  # most likely the session has to look, and it counts them, too
        decoded = self._decode(messages).messages[len(messages) - len(uncounted) :]
        check_list(decoded)
        wire, count = wire_named(self.key.format), self.session.focus.count
        sizes = [tokens_of(message, wire, count) for message in decoded]
        growth = Growth(self._growth.tokens + sum(sizes), step=sum(sizes[len(self._uncounted) :]))
        return (growth, []) if self._is_quiet(growth) else None

    def _is_quiet(self, growth: Growth) -> bool:
        return self.session._is_quiet(growth, self.conversation)

    def _session_agrees(self, messages: int) -> bool:
        return self.conversation is not None and self.session._record_append(self.conversation, messages)

    def _start_over(self) -> None:
        self.messages, self._growth, self._uncounted, self._unseen = [], Growth(), [], None
        self._can_append = True

    def _decode(self, messages: list[bytes]) -> Decoded:
        self._decoded = decode_messages(messages, self._decoded)
        return self._decoded

    # ------------------------------------------------------------------------------- requests that the session looks at

    async def look(self, messages: list[bytes], on_thread: OnThread) -> None:
        """Send a request through the session, which may decide what to drop."""
        with self._using():
            decoded, view = await self._view(messages, on_thread)
            self._start_over()
            self.messages, self.sent = decoded.raw, decoded.raw_view(view)
            self._counted = view.conversation.size

    async def peek(self, messages: list[bytes], on_thread: OnThread) -> list[bytes] | None:
        """Return the messages that would be sent, without any decision; None for all of them."""
        with self._using():
            decoded, view = await self._view(messages, on_thread, peek=True)
            return decoded.raw_view(view)

    async def _view(self, messages: list[bytes], on_thread: OnThread, *, peek: bool = False) -> tuple[Decoded, View]:
        """Ask the session about a request. It counts many new messages on a thread."""
        self.was_looked_at, self._can_append = True, False
        decoded = self._decode(messages)
        view = await self.session._aview(
            decoded.messages,
            format=self.key.format,
            id=self.key.id,
            after=self._unseen,
            continues=self.conversation,
            name=self.id,
            peek=peek,
            on_thread=partial(on_thread, decoded.new) if decoded.new > _SLOW_TO_COUNT else None,
        )
        self.conversation = view.conversation
        return decoded, view

    @contextmanager
    def _using(self) -> Iterator[None]:
        self.in_use = True
        try:
            yield
        finally:
            self.in_use = False

    # ---------------------------------------------------------------------------------------- events and dropped spans

    @property
    def events(self) -> list[SessionEvent]:
        return list(self.conversation.events) if self.conversation else []

    @property
    def savings(self) -> Totals:
        return self.conversation.savings if self.conversation else Totals()

    def new_events(self) -> list[SessionEvent]:
        """Return the events since the last call, without reasons that merely persist."""
        new: list[SessionEvent] = []
        events = self.conversation.events if self.conversation else ()
        for event in reversed(events):
            if event is self._last_event or event.steps > 1:
                break
            new.append(event)
        self._last_event = events[-1] if events else None
        return new[::-1]

    def newly_saved(self) -> float | None:
        """Return the USD saved net since the last call, negative if more was spent; None if it is not known."""
        before, self._net = self._net, self.savings.net
        return None if self._net is None or before is None else self._net - before

    def recall(self, query: str) -> str:
        """Answer a call of the recall tool. Spans that it finds return to this conversation's views."""
        if self.conversation is None:
            return answer(query, (), ())
        return self.conversation.handle_recall(query, restore=True)

    async def restore(self, span: int, passage: int | None = None) -> str | None:
        """Restore a step or one passage of it for the rest of the conversation, or return why not.

        May raise `StoreError`.
        """
        label = f"s_{span}" if passage is None else f"s_{span}.{passage}"
        if span in self.restored:
            return f"s_{span} is restored already"
        named = span if passage is None else label
        if self.conversation is None or not await asyncio.to_thread(self.conversation.restore, named):
            return f"{label} is not left out any more"
        if passage is None:
            self.restored[span] = time.time()
        return None


class LiveConversations:
    """All conversations in memory, the one used last at the end. Those of one caller and model share a session."""

    def __init__(self, make: Callable[[Key], Session], *, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        self._make = make
        self._most = most
        self._most_bytes = most_bytes
        self._live: OrderedDict[str, LiveConversation] = OrderedDict()
        self._by_root: dict[tuple[Key, str], list[LiveConversation]] = {}
        """Conversations of one caller that began with the same words."""
        self._by_head: dict[tuple[str, str, bytes], dict[LiveConversation, None]] = {}
        """Conversations of one tenant whose last bodies began with the same bytes, the one used last at the end."""
        self._generation = 0
        """Number of times that all conversations got new sessions."""
        self._sessions: dict[tuple[int, Key], Session] = {}
        self._users: Counter[tuple[int, Key]] = Counter()
        self._outdated: set[LiveConversation] = set()
        """Conversations that were in use when the others got new sessions."""
        self.held_bytes = 0
        self._closing: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[LiveConversation]:
        return reversed(self._live.values())

    def __len__(self) -> int:
        return len(self._live)

    def with_id(self, id: str) -> LiveConversation | None:
        return self._live.get(id)

    def earlier(self, body: bytes, field: str, tenant: str) -> Request | None:
        """Return an earlier request of the tenant that this body begins with, to read it by."""
        alike = self._by_head.get((tenant, field, body[:_HEAD]), {})
        for live in islice(reversed(alike), _CANDIDATES):
            if live.request is not None and live.request.is_start_of(body):
                return live.request
        return None

    def open(self, key: Key, root: str, request: Request) -> LiveConversation:
        """Return the conversation that a request continues, or a new one; `root` is the `root_of` its messages."""
        self._drop_outdated()
        live = self.find(key, root, request.messages or ()) or self._new(key, root)
        self._live.move_to_end(live.id)
        self._remember(live, request)
        self._make_room(live)
        return live

    def find(self, key: Key, root: str, messages: Sequence[bytes]) -> LiveConversation | None:
        """Return the conversation that these messages continue, unless another request is using it."""
        alike = self._by_root.get((key, root), ())
        idle = [live for live in alike if not live.in_use]
        found = [live for live in idle if continues(messages, live.messages)]
        found = found or [live for live in idle if resumes(messages, live.messages, key.format)]
        return max(found, key=lambda live: len(live.messages), default=None)

    def renew(self) -> None:
        """Give every conversation a new session. It continues from the store when its next request comes."""
        self._generation += 1
        self._outdated.update(self._live.values())
        self._drop_outdated()

    def _drop_outdated(self) -> None:
        for live in [live for live in self._outdated if not live.in_use]:
            self._outdated.remove(live)
            if self._live.get(live.id) is live:
                self._drop(live)

    async def close(self) -> None:
        self._live.clear()
        self._outdated.clear()
        self._by_root.clear()
        self._by_head.clear()
        for session in self._sessions.values():
            await asyncio.to_thread(session.close)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _new(self, key: Key, root: str) -> LiveConversation:
        of_caller = self._generation, replace(key, id=None)
        session = self._sessions.get(of_caller)
        if session is None:
            session = self._sessions[of_caller] = self._make(of_caller[1])
        self._users[of_caller] += 1
        first = name = digest(*(part or "" for part in astuple(key)), root, size=6)
        number = 1
        while name in self._live:
            number += 1
            name = f"{first}-{number}"
        live = self._live[name] = LiveConversation(name, key, root, session, self._generation)
        self._by_root.setdefault((key, root), []).append(live)
        return live

    def _remember(self, live: LiveConversation, request: Request) -> None:
        self._forget_request(live)
        live.request = request
        if len(request.start) >= _HEAD:
            self._by_head.setdefault(_head(live.key, request), {})[live] = None
        live.size = request.size
        self.held_bytes += live.size

    def _forget_request(self, live: LiveConversation) -> None:
        if live.request is not None and len(live.request.start) >= _HEAD:
            head = _head(live.key, live.request)
            del self._by_head[head][live]
            if not self._by_head[head]:
                del self._by_head[head]
        self.held_bytes -= live.size

    def _make_room(self, live: LiveConversation) -> None:
        """Drop the conversations used longest ago, except this one and those in use, until the bounds are met."""
        while len(self._live) > self._most or self.held_bytes > self._most_bytes:
            oldest = next((other for other in self._live.values() if other is not live and not other.in_use), None)
            if oldest is None:
                return
            self._drop(oldest)

    def _drop(self, live: LiveConversation) -> None:
        del self._live[live.id]
        self._forget_request(live)
        alike = self._by_root[live.key, live.root]
        alike.remove(live)
        if not alike:
            del self._by_root[live.key, live.root]
        if live.conversation is not None:
            live.session._forget(live.conversation)
        of_caller = live.generation, replace(live.key, id=None)
        self._users[of_caller] -= 1
        if not self._users[of_caller]:
            del self._users[of_caller], self._sessions[of_caller]
            task = asyncio.get_running_loop().create_task(asyncio.to_thread(live.session.close))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _head(key: Key, request: Request) -> tuple[str, str, bytes]:
    return key.tenant, request.field, request.start[:_HEAD]
