"""Compress a request: its history, if it has one, goes through the session of its conversation.

If anything goes wrong here, the request is forwarded unchanged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from ..errors import FocusError, MessageError
from ..once import Once
from ..session.events import SessionEvent
from ..wire.foreign import HELD_BY
from .access import asks_for_bypass, run_of, tenant_of
from .conversations import AgentStep, Key, LiveConversation, LiveConversations
from .recall.rounds import RECALLED, offer
from .request import (
    LARGE,
    Fields,
    Request,
    decode,
    encode,
    read_request,
    root_of,
    unpack,
    unpacked_limit,
    write_fields,
    write_list,
)
from .upstream import GEMINI_PATH

_log = logging.getLogger("focusctx.proxy")

_ALIASES = 1000
"""Most ids of answers that are remembered."""
_HUGE = 8 * LARGE
"""Bytes that take a second to parse: such work has a separate thread, so that nothing smaller waits for it."""
_WAIT = 30.0
"""Seconds that a request waits for a thread. After that it is forwarded unread."""

# Response headers that tell a caller what compression did to its request.
_RECEIVED = "x-focusctx-tokens-received"
_SENT = "x-focusctx-tokens-sent"
_WOULD_SEND = "x-focusctx-tokens-would-send"
_ESTIMATED = "x-focusctx-tokens-estimated"
_EVENT = "x-focusctx-event"
_LEFT_OUT = "x-focusctx-steps-left-out"
_SHORTENED = "x-focusctx-steps-shortened"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Route:
    """The format of a request, and the field that holds its history."""

    format: str
    field: str
    counts: bool = False
    """True if the request only asks for its number of tokens."""
    model: str = ""
    """The model, if the path names it."""


_ROUTES = {
    "/chat/completions": Route("chat_completions", "messages"),
    "/responses": Route("responses", "input"),
    "/v1/messages": Route("anthropic", "messages"),
    "/api/chat": Route("ollama", "messages"),
    "/v1/messages/count_tokens": Route("anthropic", "messages", counts=True),
}
USUAL_PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")


def route_of(method: str, path: str) -> Route | None:
    if method != "POST":
        return None
    if native := GEMINI_PATH.search(path):
        return Route("gemini", "contents", native["does"] == "countTokens", native["model"])
    return next((route for end, route in _ROUTES.items() if path.endswith(end)), None)


@dataclass(frozen=True, slots=True)
class CompressedRequest:
    """A request as it is sent to the provider."""

    body: bytes | None = None
    """None to send the original."""
    offered: tuple[LiveConversation, Fields] | None = None
    """If the model was offered the recall tool: the conversation whose spans it recalls, and the request's fields."""
    report: Mapping[str, str] = field(default_factory=dict)
    """Headers for the answer; empty if the history was not looked at."""


UNCHANGED = CompressedRequest()


class Compression:
    """Compresses requests. `watch` is called after every step, with the events that happened in it."""

    def __init__(
        self,
        conversations: LiveConversations,
        watch: Callable[[LiveConversation, AgentStep, list[SessionEvent]], None],
        *,
        limit: int,
        recall: bool,
        dry_run: bool,
    ) -> None:
        self._conversations = conversations
        self._watch = watch
        self._once = Once(_log)
        self._dry_run = dry_run
        self._aliases: dict[str, str] = {}
        self._threads = WorkerThreads()
        self.use(limit=limit, recall=recall)

    def use(self, *, limit: int, recall: bool) -> None:
        """Work with these settings from the next request on."""
        self._limit = limit
        self._recall = recall and not self._dry_run

    def close(self) -> None:
        self._threads.close()

    async def compress(
        self,
        route: Route,
        upstream: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        caller: str = "",
        query: str = "",
    ) -> CompressedRequest:
        """Return the request to send instead."""
        started = time.perf_counter()
        bypass = asks_for_bypass(headers)
        if bypass and not self._aliases:
            return UNCHANGED
        try:
            plain = await self._unpacked(body, headers.get("content-encoding"))
            tenant = tenant_of(headers, upstream, caller, query)
            request = await self._read(plain, route.field, tenant) if plain else None
            if request is None:
                return UNCHANGED
            if bypass or not request.messages or _is_held_by_provider(request.fields):
                return self._renamed(request)
            model = route.model or _model(request.fields)
            key = Key(tenant, upstream, route.format, model, run_of(headers), caller)
            root = await self._threads.run(len(body), partial(root_of, request.messages))
            if route.counts:
                return await self._for_count(key, root, request, request.messages)
            live = self._conversations.open(key, root, request)
            report = await self._step(live, request.messages, started)
            return replace(self._rebuilt(live, request, request.messages), report=report)
        except MessageError as error:
            self._once.warning(f"request forwarded unchanged: {error}")
        except FocusError as error:
            _log.warning("request forwarded unchanged: %s", error)
        except Exception:
            _log.exception("request forwarded unchanged, because of an error in focusctx: please report it")
        return UNCHANGED

    def add_alias(self, alias: tuple[str, str] | None) -> None:
        """Remember an answer's id as the agent knows it, with the one that the provider knows."""
        if alias is not None:
            self._aliases[alias[0]] = alias[1]
            while len(self._aliases) > _ALIASES:
                del self._aliases[next(iter(self._aliases))]

    async def _unpacked(self, body: bytes, encoding: str | None) -> bytes | None:
        if not encoding:
            return body
        limit = unpacked_limit(len(body), self._limit)
        return await self._threads.run(limit, partial(unpack, body, encoding, limit))

    async def _read(self, body: bytes, field: str, tenant: str) -> Request | None:
        earlier = self._conversations.earlier(body, field, tenant)
        new = len(body) - len(earlier.start) if earlier else len(body)
        return await self._threads.run(new, partial(read_request, body, field, earlier))

    async def _step(self, live: LiveConversation, messages: list[bytes], started: float) -> Mapping[str, str]:
        """Bring the conversation up to date with a request, and report the step; return the report for the caller."""
        is_looked_at = not live.append(messages)
        if is_looked_at:
            await live.look(messages, self._threads.on_thread)
        step = AgentStep(time.time(), *live.tokens, time.perf_counter() - started, exact=is_looked_at)
        live.steps.append(step)
        events = live.new_events()
        self._watch(live, step, events)
        return _report_headers(live, step, events, dry_run=self._dry_run)

    def _rebuilt(self, live: LiveConversation, request: Request, messages: list[bytes]) -> CompressedRequest:
        kept = None if self._dry_run else live.sent
        offered = None
        if self._recall and live.key.format in RECALLED:
            offered = offer(request.fields, live.key.format)
        elif self._recall:
            self._once.warning(f"the recall tool is not offered in requests of the format {live.key.format}")
        if offered is not None:
            history = write_list(messages if kept is None else kept)
            fields = {**request.fields, **offered, request.field: history}
            return CompressedRequest(write_fields(fields), (live, fields))
        return UNCHANGED if kept is None else CompressedRequest(request.with_messages(kept))

    def _renamed(self, request: Request) -> CompressedRequest:
        """Return a request that continues from an answer with the id by which the provider knows that answer."""
        shown = decode(request.fields.get("previous_response_id"))
        if not isinstance(shown, str) or shown not in self._aliases:
            return UNCHANGED
        return CompressedRequest(request.with_fields({"previous_response_id": encode(self._aliases[shown])}))

    async def _for_count(self, key: Key, root: str, request: Request, messages: list[bytes]) -> CompressedRequest:
        """Return the request to count the tokens that would be sent, if its conversation is known."""
        live = self._conversations.find(key, root, messages)
        if live is None or not live.was_looked_at or self._dry_run:
            return UNCHANGED
        kept = await live.peek(messages, self._threads.on_thread)
        return UNCHANGED if kept is None else CompressedRequest(request.with_messages(kept))


def _report_headers(
    live: LiveConversation, step: AgentStep, events: Sequence[SessionEvent], *, dry_run: bool
) -> dict[str, str]:
    """Describe one request: its tokens, the event that was made for it, and the steps that its history lacks.

    In a dry run everything was sent, so the tokens that would have been sent have a name of their own.
    """
    made = next((event.cause for event in reversed(events) if event.happened), "none")
    left_out = live.conversation.left_out if live.conversation else None
    headers = {
        _RECEIVED: str(step.full),
        _WOULD_SEND if dry_run else _SENT: str(step.sent),
        _EVENT: made,
        _LEFT_OUT: str(len(left_out.spans) - len(left_out.shown) if left_out else 0),
        _SHORTENED: str(len(left_out.shown) if left_out else 0),
    }
    return headers if step.exact else {**headers, _ESTIMATED: "1"}


def _is_held_by_provider(fields: Fields) -> bool:
    """True if the request carries new messages only, and the provider has the rest."""
    return any(decode(fields.get(field)) for field in HELD_BY)


def _model(fields: Fields) -> str:
    model = decode(fields.get("model"))
    return model if isinstance(model, str) else ""


class Busy(FocusError):
    """No thread was free for a large request."""

    def __init__(self) -> None:
        super().__init__(f"too many large requests at once: no thread was free within {_WAIT:.0f} s")


class WorkerThreads:
    """Threads for work that would block the event loop; few enough to leave the loop its share of the processor."""

    def __init__(self) -> None:
        self._usual = ThreadPoolExecutor(4, "focusctx large")
        self._huge = ThreadPoolExecutor(1, "focusctx huge")

    async def run(self, size: int, function: Callable[[], T]) -> T:
        """Call the function, which has `size` bytes to process: directly, or on a thread if that takes long."""
        return await self.on_thread(size, function) if size > LARGE else function()

    async def on_thread(self, size: int, function: Callable[[], T]) -> T:
        """Call the function on a thread.

        If the caller is cancelled, wait for the function first: it may be changing data that the caller has locked.
        """
        work = (self._huge if size > _HUGE else self._usual).submit(function)
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(work)), _WAIT)
        except TimeoutError:
            if work.cancel():
                raise Busy from None
            return await asyncio.shield(asyncio.wrap_future(work))
        finally:
            if not work.cancel():
                await _ended(work)

    def close(self) -> None:
        for threads in (self._usual, self._huge):
            threads.shutdown(wait=False, cancel_futures=True)


async def _ended(work: Future[T]) -> None:
    while not work.done():
        try:
            await asyncio.wait([asyncio.wrap_future(work)])
        except asyncio.CancelledError:
            continue  # the caller is already being cancelled
