"""The application: receives every request and forwards it to one of the configured providers.

`Proxy` has the routes. `Connections` adds a time limit that aiohttp lacks, for clients that do not finish the head of a
request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from aiohttp import web

from ..compressor import Focus
from ..errors import FocusError, StoreError
from ..session.events import SessionEvent
from ..session.session import Session
from ..session.stores import store_from
from .access import FOREIGN, Access, Refused, refusal
from .client import Body, Client, NoAnswer, Outgoing, Upload, pass_down, relay
from .compress_endpoint import PATH, CompressEndpoint
from .compression import USUAL_PATHS, Compression, Route, route_of
from .conversations import AgentStep, Key, LiveConversation, LiveConversations
from .dashboard import add_dashboard
from .guarded_store import GuardedStore
from .metrics import Metrics, RequestOutcome
from .recall.rounds import RECALLED, RecallRounds
from .request import read_pieces, read_up_to
from .settings import Budgets, Settings, load_certificate, tls_context
from .upstream import Upstream, Upstreams, headers_up, listed, path_up

if TYPE_CHECKING:
    from .tracing import Tracing

_log = logging.getLogger("focusctx.proxy")

_REPORT = web.RequestKey("focusctx_report", Mapping[str, str])
_SHORT = 1024 * 1024
"""Bytes up to which the body of any request is read before it is forwarded."""
HEAD = 30.0
"""Seconds within which a head must be complete, counted from its first byte or from the start of the connection."""
_FIXED = ("host", "port", "store", "otel", "dry_run", "grace", "tls_cert", "tls_key")
"""Settings that a running proxy keeps."""

Read: TypeAlias = Callable[[], tuple[Focus, Settings]]
"""Reads the settings again."""
_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Proxy:
    """Builds an aiohttp application from a compressor and settings."""

    def __init__(self, focus: Focus, settings: Settings) -> None:
        self.store = GuardedStore(store_from(settings.store_url))
        self.conversations = LiveConversations(self._session)
        self.metrics = Metrics(self.conversations, dry_run=settings.dry_run)
        self.access = Access()
        self.tls = tls_context(settings)
        self.watchers: set[asyncio.Event] = set()
        """Events that open dashboard pages wait for."""
        self.stopping = False
        self._compression = Compression(
            self.conversations,
            self._watch,
            limit=settings.body_limit,
            recall=settings.recall,
            dry_run=settings.dry_run,
        )
        self._compress_endpoint = CompressEndpoint(self.store, self.access, self.metrics)
        self._client = Client()
        self._tracing = _tracing(settings) if settings.otel else None
        self.use(focus, settings)

    def use(self, focus: Focus, settings: Settings) -> None:
        """Work with these settings from the next request on. Conversations keep the sessions that they have."""
        upstreams = Upstreams(settings.upstreams)  # before anything changes: this and the next line may raise
        self._client.use(settings.upstreams)
        self._upstreams = upstreams
        self.focus = focus
        self.settings = settings
        self._budgets = Budgets(focus, settings)
        self._compress_endpoint.use(self._budgets, settings)
        self._compression.use(limit=settings.body_limit, recall=settings.recall)
        self.access.use(settings.token, settings.admin_token, settings.callers)

    def reload(self, read: Read) -> None:
        """Read the settings again and use them from the next request on. If they are wrong, the old ones stay in use.

        The certificate is read again, too. If anything about compression changed, conversations go on from the store.
        """
        old = self.settings
        try:
            focus, new = read()
            settings = replace(new, **{name: getattr(old, name) for name in _FIXED})
            if focus.draft.name == self.focus.draft.name:  # a model that is loaded need not be loaded again
                focus = Focus(self.focus.draft, config=focus.config)
            changed = _sessions_made_from(self.focus, old) != _sessions_made_from(focus, settings)
            if self.tls is not None and settings.tls_cert is not None:
                load_certificate(self.tls, settings.tls_cert, settings.tls_key)
            self.use(focus, settings)
        except (FocusError, OSError) as error:
            _log.error("the settings were not reloaded, the old ones stay in use: %s", str(error).split("\n", 1)[0])
            return
        if changed:
            self.conversations.renew()
        later = [name for name in _FIXED if getattr(new, name) != getattr(old, name)]
        _log.info("settings reloaded%s", f"; a restart is needed for {', '.join(later)}" if later else "")

    def app(self) -> web.Application:
        app = web.Application(
            client_max_size=0, middlewares=[note_request, _answer_refused]
        )  # `_body` decides what is held in memory
        app.cleanup_ctx.append(self._run)
        app.on_response_prepare.append(_add_report)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_route("*", PATH, self._compress_endpoint.answer)
        add_dashboard(app, self)
        for path in (*USUAL_PATHS, r"/{path:[\s\S]*}"):  # aiohttp finds fixed paths without a search
            app.router.add_route("*", path, self._forward)
        return app

    async def _run(self, _app: web.Application) -> AsyncIterator[None]:
        async with self._client:
            yield
        self._compression.close()
        await self._compress_endpoint.close()
        await self.conversations.close()
        await asyncio.to_thread(self.store.close)
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)

    def _session(self, key: Key) -> Session:
        settings = self.settings
        return self._budgets.focus_for(key.caller, key.model, key.upstream).session(
            self.store,
            tenant=key.tenant,
            model=key.model,
            only_if_it_pays=settings.only_if_it_pays,
            recall=settings.recall and key.format in RECALLED,
            frozen=True,
        )

    def _watch(self, live: LiveConversation, step: AgentStep, events: list[SessionEvent]) -> None:
        net = live.newly_saved()
        self.metrics.stepped(live.key, step, events, net)
        if self._tracing is not None:
            self._tracing.stepped(live, step, events, net)
        for event in events:
            note_event(live, event, self.settings)
        self.announce()

    def announce(self) -> None:
        """Tell open dashboard pages that something changed."""
        for watcher in self.watchers:
            watcher.set()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if not request.raw_path.startswith("/"):  # CONNECT, or an absolute URL
            return refusal(400, "this is not a forward proxy: set your agent's base URL to its address instead")
        if request.method == "GET" and request.raw_path == "/" and not _is_websocket(request):
            return web.Response(status=302, headers={"Location": "/ui"})
        upstream, path = self._upstreams.choose(request.raw_path, request.headers)
        caller = await self.access.admit(request, uses_own_key=bool(upstream.key))
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            return refusal(403, FOREIGN)
        with (
            self.metrics.request(upstream.name, caller) as outcome,
            self._tracing.request(upstream, outcome) if self._tracing else nullcontext() as outcome.watch,
        ):
            try:
                response = await self._answer(request, upstream, path, outcome)
            except NoAnswer as error:
                response = refusal(error.status, f"{upstream.name} did not answer: {error}")
            except Refused as refused:
                response = refused.response()
            except ConnectionResetError:  # the agent disconnected while its answer was written
                response = refusal(499, "client disconnected")
            outcome.status = response.status
            return response

    async def _answer(
        self, request: web.Request, upstream: Upstream, path: str, outcome: RequestOutcome
    ) -> web.StreamResponse:
        headers = headers_up(request.headers, upstream, path)
        outgoing = Outgoing(upstream, request.method, path_up(path, upstream), headers)
        if _is_websocket(request):
            if self.settings.refuse_websockets:
                return refusal(426, "WebSockets are refused, since they cannot be compressed: use HTTP instead")
            return await relay(request, self._client, outgoing)
        place, _, query = path.partition("?")
        route = route_of(request.method, place)
        body = await self._body(request, route)
        if route is not None and isinstance(body, bytes):
            compressed = await self._compression.compress(
                route, upstream.name, request.headers, body, caller=outcome.caller, query=query
            )
            request[_REPORT] = compressed.report
            if compressed.body is not None:
                headers.popall("content-encoding", None)
                body = compressed.body
                if compressed.offered is not None:
                    rounds = RecallRounds(self._client, outgoing, *compressed.offered)
                    response = await rounds.answer(request, body, outcome.watch)
                    self._compression.add_alias(rounds.turn.alias)
                    return response
        async with self._client.ask(outgoing, body) as answer:
            return await pass_down(request, answer, outcome.watch)

    async def _body(self, request: web.Request, route: Route | None) -> Body:
        """Read histories, up to the limit, and short bodies whole. Everything else is forwarded as it arrives."""
        if not request.can_read_body:
            return None
        limit = self.settings.body_limit if route else min(_SHORT, self.settings.body_limit)
        length = request.content_length
        content = request.content
        if (route is None and length is None) or (length or 0) > limit:
            return Upload(read_pieces(content), length)
        if length is not None and content.is_eof():
            return content.read_nowait()
        body, is_whole = await read_up_to(content, limit)
        return body if is_whole else Upload(read_pieces(content, body), length)

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, request: web.Request) -> web.Response:
        """Say whether to send traffic here. A failing store stops compression, not forwarding: it is only reported."""
        if self.stopping:
            return web.json_response({"status": "stopping"}, status=503)
        try:
            await asyncio.wait_for(asyncio.to_thread(self.store.version, "", ""), 2)
        except (StoreError, TimeoutError) as error:
            try:
                await self.access.admit_admin(request)
            except Refused:  # the error may name hosts and files
                return web.json_response({"status": "ok", "store": "in trouble"})
            return web.json_response({"status": "ok", "store": f"in trouble: {error}"})
        return web.json_response({"status": "ok", "store": "ok"})

    async def _metrics(self, request: web.Request) -> web.Response:
        await self.access.admit_admin(request)
        return web.Response(body=self.metrics.text(), headers={"content-type": self.metrics.content_type})


def _is_websocket(request: web.BaseRequest) -> bool:
    """True if a request asks for a WebSocket."""
    asked = (("upgrade", "websocket"), ("connection", "upgrade"))
    return request.method == "GET" and all(
        any(element.lower() == word for element in listed(request.headers, name)) for name, word in asked
    )


@web.middleware
async def _answer_refused(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Answer the requests that a handler refuses to serve."""
    try:
        return await handler(request)
    except Refused as refused:
        return refused.response()


async def _add_report(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Tell the caller what compression did to its request."""
    response.headers.update(request.get(_REPORT, {}))


def _tracing(settings: Settings) -> Tracing:
    from .tracing import Tracing  # needs the extra `otel`

    return Tracing(dry_run=settings.dry_run)


def note_event(live: LiveConversation, event: SessionEvent, settings: Settings) -> None:
    """Log an event in one line. Text of the agent and its tools is left out unless `log_text` is set."""
    if event.evidence is not None and event.evidence.failure is not None:
        return  # the failure was logged where it happened
    changed = f"{event.tokens_before:,} → {event.tokens_after:,} tokens, "
    what = f"{changed}{event.why}" if event.happened else f"left: {event.why}"
    would = "dry run, would be: " if settings.dry_run and event.happened else ""
    _log.info("session %s, step %d: %s%s (%s)", live.id, event.span, would, what, event.cause)
    if settings.log_text and event.result is not None and event.result.history is not None:
        dropped = set(event.result.dropped)
        for span in event.result.history.spans:
            if span.index in dropped:
                words = f"{span.action} {span.observation}"[:200]
                _log.info("session %s %sdropped %s: %r", live.id, would, span.label, words)


def _sessions_made_from(focus: Focus, settings: Settings) -> tuple[object, ...]:
    """Return everything that sessions were made from."""
    return (
        *(focus.draft.name, focus.config, settings.recall, settings.only_if_it_pays, settings.model_budgets),
        {caller.name: caller.budget for caller in settings.callers},
        {upstream.name: upstream.budget for upstream in settings.upstreams},
    )


class Connections:
    """Creates the protocol objects of a server's connections, and cuts off clients that do not finish a head."""

    def __init__(self, make: Callable[[], asyncio.Protocol]) -> None:
        self._make = make
        self._waiting: dict[_Connection, float] = {}
        """Time at which each incomplete head began, oldest first."""

    def __call__(self) -> asyncio.Protocol:
        return _Connection(self._make(), self._waiting)

    async def cut_off(self) -> None:
        """Abort connections whose head takes too long. Runs until it is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(HEAD / 10)
            late = clock() - HEAD
            while self._waiting and (oldest := next(iter(self._waiting.items())))[1] < late:
                del self._waiting[oldest[0]]
                oldest[0].abort()


class _Connection(asyncio.Protocol):
    """Wraps aiohttp's protocol and records when a head begins. `note_request` reports when it is complete.

    If a head follows another request without a pause, its time is counted only from the next byte received: until
    then the connection looks idle from here.
    """

    def __init__(self, protocol: asyncio.Protocol, waiting: dict[_Connection, float]) -> None:
        self._protocol = protocol
        self._waiting = waiting
        self._is_idle = False
        self._transport: asyncio.BaseTransport | None = None
        self._clock = asyncio.get_running_loop().time

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._waiting[self] = self._clock()
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            self._is_idle = False
            self._waiting[self] = self._clock()
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._waiting.pop(self, None)
        self._protocol.connection_lost(error)

    def abort(self) -> None:
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()

    def begin_request(self) -> None:
        self._is_idle = False
        self._waiting.pop(self, None)

    def end_request(self) -> None:
        self._is_idle = True


@web.middleware
async def note_request(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Tell the connection when a head is complete, and when the request has been answered."""
    connection = request.transport.get_protocol() if request.transport is not None else None
    if not isinstance(connection, _Connection):
        return await handler(request)
    connection.begin_request()
    try:
        return await handler(request)
    finally:
        connection.end_request()
