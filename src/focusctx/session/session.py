"""A session: call `view` at every step with the whole history; decisions last, and the prefix stays in place.

Sketches, which take time, are requested ahead, while the agent's own call runs. Moving the prefix, which costs money,
waits until it pays, as far as the budget allows. Originals are in the store before the first view without them is
returned.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any, Self, TypeAlias

from ..compressor import Focus
from ..errors import ConfigError
from ..pipeline.split import Reader
from ..prices import price_of
from ..runtime import LoopRuntime, ThreadRuntime
from ..types import Message
from .conversation import Call, Chain, Conversation, View
from .conversations import Conversations
from .economics import FREE, Economics, Growth
from .events import Ledger, Log, SessionEvent, pending_totals
from .recall import answer, query_of, recall_tool, span_number
from .steps import Steps
from .store import Archived, Store, Totals
from .stores import shared_store, store_from

OnThread: TypeAlias = Callable[[Callable[[], Conversation]], Awaitable[Conversation]]
"""Calls a function on a thread, and returns its result once it has returned."""


class Session:
    """Compresses any number of conversations, from any threads and event loops, with decisions kept in a store.

    Close it when done, or use it as a context manager, sync or async.

    Args:
        focus: Compresses the histories.
        store: Where decisions are kept: `memory`, the URL of a SQLite file or of Redis, or an object with the methods
            of `Store`.
        tenant: The owner of the decisions; no other tenant sees them.
        model: The agent's model, for prices. With None or an unknown model, money is not weighed.
        only_if_it_pays: Put money before the budget: an event that costs more than it saves is never made. By default
            it may wait until the view is a quarter over the budget, and is then made.
        ahead: The share of the budget at which sketches are requested ahead of time; 1 for never.
        growth: How much a view must grow after an event, as a share of the budget, before the next one.
        recall: True if the agent has the recall tool: the view then lists the steps that were left out.
        frozen: True if the caller never edits a message it has passed in: each is read only once.
        clock: Returns seconds since the epoch.
    """

    def __init__(
        self,
        focus: Focus,
        store: str | Store = "memory",
        *,
        tenant: str = "default",
        model: str | None = None,
        only_if_it_pays: bool = False,
        ahead: float = 0.9,
        growth: float = 0.25,
        recall: bool = False,
        frozen: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not 0 < ahead <= 1:
            raise ConfigError(f"ahead must be above 0 and at most 1, got {ahead!r}")
        if not growth >= 0:
            raise ConfigError(f"growth must be 0 or more, got {growth!r}")
        self.focus = focus
        self.store = shared_store(store) if isinstance(store, str) else store_from(store)
        self._owns_store = isinstance(store, str)
        self._on_a_thread = getattr(self.store, "on_a_thread", None)
        self.tenant = tenant
        self._clock = clock
        self._economics = Economics(
            (price_of(model) if model else None) or FREE,
            focus.config,
            focus.draft_price,
            focus.count,
            ahead=1.0 if getattr(focus.draft, "instant", False) else ahead,
            growth=growth,
            only_if_it_pays=only_if_it_pays,
        )
        self._offers_recall = recall
        self._log = Log()
        self._pending = pending_totals(self.store)
        self._ledger = Ledger(self._economics.price, partial(self._pending.add, self.store, tenant))
        self._steps = Steps(
            focus,
            self.store,
            economics=self._economics,
            log=self._log,
            totals=self._pending,
            noted=recall,
            clock=clock,
        )
        self._conversations = Conversations(focus, self._begin, self._release, frozen=frozen)

    def __repr__(self) -> str:
        return f"<Session: conversations={len(self.conversations)}, store={type(self.store).__name__}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop_sketches()
        await LoopRuntime(self._on_a_thread).call(self._write_and_close)

    def view(self, messages: Sequence[Message], *, format: str | None = None, id: str | None = None) -> View:
        """Return the messages to send instead of the history: the last view and the new ones, unless an event is due.

        `id` is your own name for the conversation, such as a thread's. Conversations of different ids share only
        decisions about equal histories. Without an id, a conversation is recognised by its steps.
        """
        runtime = ThreadRuntime()
        with self._conversations.using(messages, format, id) as conversation:
            return runtime.drive(self._steps.view(conversation, runtime))

    async def aview(self, messages: Sequence[Message], *, format: str | None = None, id: str | None = None) -> View:
        """`view` for async programs. Files and servers are called on a thread."""
        return await self._aview(messages, format=format, id=id)

    @property
    def conversations(self) -> list[Conversation]:
        """The conversations held in memory, most recently used first."""
        return list(self._conversations)

    @property
    def events(self) -> deque[SessionEvent]:
        """Every change of a view, or the reason why there was none, in all conversations."""
        return self._log.events

    @property
    def savings(self) -> Totals:
        """Tokens and USD saved and spent so far, in all conversations."""
        return self._ledger.totals

    @property
    def size(self) -> tuple[int, int]:
        """Tokens of the full history and of its view, in a session of one conversation."""
        conversation = self._only()
        return conversation.size if conversation else (0, 0)

    def recall(self, query: str | int, *, conversation: Conversation | None = None) -> list[Archived]:
        """Return the spans that match an id (`s_7`, `s_7.2`), a number or words; see `Conversation.recall`."""
        found = conversation or self._only()
        return found.recall(query) if found else []

    def recall_tool(self, format: str = "chat_completions") -> dict[str, Any]:
        """Return the definition of the tool whose calls `handle_recall` answers."""
        return recall_tool(format)

    def handle_recall(
        self,
        arguments: str | Mapping[str, Any],
        *,
        restore: bool = False,
        conversation: Conversation | None = None,
    ) -> str:
        """Answer a call of the recall tool; see `Conversation.handle_recall`."""
        found = conversation or self._only()
        return found.handle_recall(arguments, restore=restore) if found else answer(query_of(arguments), (), ())

    def restore(self, span: int | str, *, conversation: Conversation | None = None) -> bool:
        """Bring a span back whole, 7 or `s_7`, or one passage of it, `s_7.2`, for the rest of the conversation.

        False if it is not left out.
        """
        span_number(span)  # an id that names nothing is an error also before the first conversation
        found = conversation or self._only()
        return found is not None and found.restore(span)

    def close(self) -> None:
        """Stop sketches under way, write pending totals, and close a store that was made from a URL."""
        self._stop_sketches()
        self._write_and_close()

    def _stop_sketches(self) -> None:
        for conversation in self._conversations:
            self._steps.release(conversation)

    def _write_and_close(self) -> None:
        self._pending.write(self.store)
        if self._owns_store:
            self.store.close()

    # For the proxy, which tells conversations apart itself.

    async def _aview(
        self,
        messages: Sequence[Message],
        *,
        format: str | None = None,
        id: str | None = None,
        after: Call | None = None,
        continues: Conversation | None = None,
        name: str | None = None,
        peek: bool = False,
        on_thread: OnThread | None = None,
    ) -> View:
        """`aview` of the conversation with the key `name`, which `continues` an earlier object if there is one.

        `after` is the previous call, if it was made without this session. With `peek`, no event is made and no call is
        counted. `on_thread` reads and counts the messages on a thread, for when very many are new; it must not return
        before the thread is done.
        """
        runtime = LoopRuntime(self._on_a_thread)
        with ExitStack() as stack:
            found = self._conversations.using(messages, format, id, continues=continues, name=name)
            conversation = await _entered(stack, found, on_thread)
            if peek:
                return await runtime.drive(self._steps.peek(conversation, runtime))
            conversation.last_call = conversation.last_call or after
            return await runtime.drive(self._steps.view(conversation, runtime))

    def _is_quiet(self, more: Growth, conversation: Conversation | None) -> bool:
        """True if nothing can be due, now or soon, for a history that grew by `more` since it was read."""
        return self._economics.is_quiet(conversation, more)

    def _record_append(self, conversation: Conversation, messages: int) -> bool:
        """Record a call that only appended to the last view, up to `messages` messages in all, and `_is_quiet`.

        False if the session must look at it after all: the conversation is in use, or something may have been decided
        elsewhere.
        """
        with self._conversations.if_free(conversation) as free:
            return free and self._steps.record_append(conversation, messages)

    def _forget(self, conversation: Conversation) -> None:
        """Release a conversation. If it comes back, it continues from the store."""
        self._conversations.forget(conversation)

    def _only(self) -> Conversation | None:
        """Return the one conversation of this session; None before the first."""
        known = self.conversations
        longest = max(known, key=lambda each: len(each.reader.messages), default=None)
        if longest is None or all(longest.is_ahead_of(each) for each in known):
            return known[0] if known else None
        raise ConfigError(
            f"this session holds {len(known)} conversations: pass conversation=view.conversation, "
            "or call the method of view.conversation itself"
        )

    def _begin(self, reader: Reader, chain: Chain, id: str | None) -> Conversation:
        return Conversation(
            reader,
            chain,
            self.focus.config,
            self.focus.count,
            tenant=self.tenant,
            id=id,
            store=self.store,
            ledger=Ledger(self._economics.price, self._ledger.add),
            noted=self._offers_recall,
        )

    def _release(self, conversation: Conversation) -> None:
        self._steps.release(conversation)
        self._log.forget(conversation)
        self._pending.hurry()


async def _entered(
    stack: ExitStack, found: AbstractContextManager[Conversation], on_thread: OnThread | None
) -> Conversation:
    """Enter the context, on a thread if one is given; the stack exits it, however the call ends."""
    enter = partial(stack.enter_context, found)
    return enter() if on_thread is None else await on_thread(enter)
