"""A session: call `view` at every step with the whole history; decisions last, the prefix does not move.

Sketches, which take time, are asked for ahead, while the agent's own call runs. A moved prefix, which costs money,
happens only when it pays. Originals are in the store before the first view that lacks them is returned.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ..compressor import Focus
from ..errors import ConfigError
from ..pipeline.split import Reader
from ..prices import price_of
from ..types import Message
from .conversation import Call, Conversation, View
from .conversations import Conversations
from .due import Growth, Rule
from .events import Log, SessionEvent
from .gate import FREE
from .keys import Chain
from .ledger import Ledger
from .money import Money
from .recall import answer, query_of, recall_tool, span_number
from .steps import Steps
from .store import Archived, Store, Totals
from .stores import shared_store, store_from
from .unwritten import unwritten
from .waiting import Tasks, Threads


class Session:
    """Follows conversations through a store, any number of them, from any threads and event loops.

    tenant       whose decisions these are; nobody else sees them
    model        the agent's model, for prices; None or an unknown one: money is not weighed
    money_gate   drop only when it pays; False is the paper's rule, over budget
    ahead        the share of the budget at which sketches are asked for ahead of time; 1 for never
    growth       how much a view must grow after an event, as a share of the budget, before the next one
    recall       whether the agent has the recall tool: the view then says what was left out
    frozen       the caller never edits a message it has passed in: none is looked at twice
    clock        seconds since the epoch
    """

    def __init__(
        self,
        focus: Focus,
        store: str | Store = "memory",
        *,
        tenant: str = "default",
        model: str | None = None,
        money_gate: bool = True,
        ahead: float = 0.8,
        growth: float = 0.25,
        recall: bool = False,
        frozen: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not 0 < ahead <= 1 or growth < 0:
            raise ConfigError(f"ahead must be above 0 and at most 1, growth 0 or more; got {ahead!r} and {growth!r}")
        self.focus = focus
        self.store = shared_store(store) if isinstance(store, str) else store_from(store)
        self._owns_store = isinstance(store, str)
        self._on_a_thread = getattr(self.store, "on_a_thread", None)
        self.tenant = tenant
        self.clock = clock
        self._price = (price_of(model) if model else None) or FREE
        money = Money(self._price, focus.config, focus.draft.name, focus.count)
        self._rule = Rule(focus.config, money, growth=growth, gated=money_gate)
        self._ahead = ahead
        self._offers_recall = recall
        self._log = Log()
        self._unwritten = unwritten(self.store)
        self._ledger = Ledger(self._price, partial(self._unwritten.add, self.store, tenant))
        self._steps = Steps(
            focus,
            self.store,
            rule=self._rule,
            money=money,
            log=self._log,
            unwritten=self._unwritten,
            ahead=ahead,
            noted=recall,
            clock=clock,
        )
        self._conversations = Conversations(focus, self._begin, self._let_go, frozen=frozen)

    def view(self, messages: Sequence[Message], *, format: str | None = None, id: str | None = None) -> View:
        """The messages to send instead of the whole history: the last view and the new ones, unless an event is due.

        `id` is your own name for the conversation, such as a thread's. Conversations of different ids share nothing
        but decisions about equal histories. Without one, a conversation is known by its steps.
        """
        world = Threads()
        with self._conversations.that_is(messages, format, id) as conversation:
            return world.drive(self._steps.view(conversation, world))

    async def aview(
        self,
        messages: Sequence[Message],
        *,
        format: str | None = None,
        id: str | None = None,
        after: Call | None = None,
        of: Conversation | None = None,
        name: str | None = None,
    ) -> View:
        """`view` for async programs. Files and servers are asked on a thread.

        For callers that tell conversations apart themselves: `name` is the key of this one, `of` the object that goes
        on, if there is one; `after` is the call before it, where that was made without this session.
        """
        world = Tasks(self._on_a_thread)
        with self._conversations.that_is(messages, format, id, of=of, name=name) as conversation:
            conversation.last_call = conversation.last_call or after
            return await world.drive(self._steps.view(conversation, world))

    async def apeek(
        self,
        messages: Sequence[Message],
        *,
        format: str | None = None,
        id: str | None = None,
        of: Conversation | None = None,
        name: str | None = None,
    ) -> View:
        """The view that `aview` would return as things are: no event, no call, nothing is counted."""
        world = Tasks(self._on_a_thread)
        with self._conversations.that_is(messages, format, id, of=of, name=name) as conversation:
            return await world.drive(self._steps.peek(conversation, world))

    @property
    def conversations(self) -> list[Conversation]:
        """All that are held in memory, the one used last first."""
        return list(self._conversations)

    @property
    def events(self) -> deque[SessionEvent]:
        """Every change of a view, and the reasons why there was none, in all conversations."""
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
        """The dropped span with that id (`s_7`) or number, verbatim, or those in which the words occur."""
        found = conversation or self._only()
        return found.recall(query) if found else []

    def recall_tool(self, format: str = "chat_completions") -> dict[str, Any]:
        """The definition of the tool whose calls `handle_recall` answers."""
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
        """Have a dropped span, 7 or `s_7`, back for the rest of the conversation; False if it is not dropped."""
        number, found = span_number(span), conversation or self._only()
        return found is not None and found.restore(number)

    def is_quiet(self, more: Growth, conversation: Conversation | None) -> bool:
        """True if nothing can be due, now or soon, for a history that grew by `more` since it was looked at."""
        return self._rule.is_quiet(conversation, more, ahead=self._ahead)

    def goes_on(self, conversation: Conversation, messages: int) -> bool:
        """Record a call that only appended to the last view, up to that number of messages, and `is_quiet`.

        False where the session has to look at it all the same: it is in use, or something may have been decided
        elsewhere.
        """
        with self._conversations.if_free(conversation) as free:
            return free and self._steps.goes_on(conversation, messages)

    def forget(self, conversation: Conversation) -> None:
        """Hold a conversation no longer. If it comes back, it goes on from the store."""
        self._conversations.forget(conversation)

    def close(self) -> None:
        """Stop sketches under way and write what is not written; a store made from a URL is let go of."""
        for conversation in self._conversations:
            self._steps.let_go(conversation)
        self._unwritten.write(self.store)
        if self._owns_store:
            self.store.close()

    def _only(self) -> Conversation | None:
        """The conversation this session is about; None before the first."""
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
            ledger=Ledger(self._price, self._ledger.add),
            noted=self._offers_recall,
        )

    def _let_go(self, conversation: Conversation) -> None:
        self._steps.let_go(conversation)
        self._log.forget(conversation)
        self._unwritten.hurry()
