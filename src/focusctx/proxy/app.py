"""The application: receives every request and forwards it to one of the configured providers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from aiohttp import web

from ..compressor import Focus
from ..errors import StoreError
from ..session.events import SessionEvent
from ..session.session import Session
from ..session.stores import store_from
from .access import Access, Refusal
from .answer import NoAnswer, pass_down, refusal
from .body import TooSlow, read_pieces, read_up_to
from .budgets import Budgets
from .client import Body, Client, Outgoing, Upload
from .compress_endpoint import PATH, CompressEndpoint
from .compression import USUAL_PATHS, Compression, Route, route_of
from .conversations import Key, LiveConversation, LiveConversations, Step
from .dashboard import add_dashboard
from .guarded_store import GuardedStore
from .headers import headers_up, is_websocket, path_up
from .metrics import Metrics, Outcome
from .recall.rounds import RecallRounds
from .recall.tool import RECALLED
from .settings import Settings
from .tls import tls_context
from .upstream import Upstream, Upstreams
from .websocket import relay

if TYPE_CHECKING:
    from .tracing import Tracing

_log = logging.getLogger("focusctx.proxy")

_REPORT = web.RequestKey("focusctx_report", Mapping[str, str])
_SHORT = 1024 * 1024
"""Bytes up to which the body of any request is read before it is forwarded."""


class Proxy:
    """Builds an aiohttp application from a compressor and settings."""

    def __init__(self, focus: Focus, settings: Settings) -> None:
        self.store = GuardedStore(store_from(settings.store_url))
        self.conversations = LiveConversations(self._session)
        self.metrics = Metrics(self.conversations, dry_run=settings.dry_run)
        self.access = Access()
        self.tls = tls_context(settings.tls_cert, settings.tls_key) if settings.tls_cert else None
        self.watchers: set[asyncio.Event] = set()
        """Events that live pages wait for; set after every step of a conversation."""
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
        self._budgets = Budgets(focus, settings.callers, settings.model_budgets, settings.upstreams)
        self._compress_endpoint.use(self._budgets, settings)
        self._compression.use(limit=settings.body_limit, recall=settings.recall)
        self.access.use(settings.token, settings.admin_token, settings.callers)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=0)  # `_body` decides what is held in memory
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
        return self._budgets.focus_for(key).session(
            self.store,
            tenant=key.tenant,
            model=key.model,
            only_if_it_pays=settings.only_if_it_pays,
            recall=settings.recall and key.format in RECALLED,
            frozen=True,
        )

    def _watch(self, live: LiveConversation, step: Step, events: list[SessionEvent]) -> None:
        net = live.newly_saved()
        self.metrics.stepped(live.key, step, events, net)
        if self._tracing is not None:
            self._tracing.stepped(live, step, events, net)
        for event in events:
            note_event(live, event, self.settings)
        for watcher in self.watchers:
            watcher.set()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if not request.raw_path.startswith("/"):  # CONNECT, or an absolute URL
            return refusal(400, "this is not a forward proxy: set your agent's base URL to its address instead")
        if request.method == "GET" and request.raw_path == "/" and not is_websocket(request):
            return web.Response(status=302, headers={"Location": "/ui"})
        chosen = self._upstreams.choose(request.raw_path, request.headers)
        if isinstance(chosen, str):
            return refusal(404, chosen)
        upstream, path = chosen
        caller = await self.access.admit(request, upstream)
        if isinstance(caller, Refusal):
            return refusal(caller.status, caller.why)
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            return refusal(403, "requests from web pages are not accepted")
        outcome = self.metrics.begin(caller)
        try:
            with self._tracing.request(upstream, outcome) if self._tracing else nullcontext() as outcome.watch:
                try:
                    response = await self._answer(request, upstream, path, outcome)
                except NoAnswer as error:
                    response = refusal(error.status, f"{upstream.name} did not answer: {error}")
                except TooSlow as error:
                    response = refusal(408, str(error))
                    response.force_close()
                except ConnectionResetError:  # the agent disconnected while its answer was written
                    response = refusal(499, "client disconnected")
                outcome.status = response.status
                return response
        finally:
            self.metrics.end(upstream.name, outcome)

    async def _answer(
        self, request: web.Request, upstream: Upstream, path: str, outcome: Outcome
    ) -> web.StreamResponse:
        headers = headers_up(request.headers, upstream, path)
        outgoing = Outgoing(upstream, request.method, path_up(path, upstream), headers)
        if is_websocket(request):
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
            why = "" if await self.access.refuses_admin(request) else f": {error}"  # the error may name hosts and files
            return web.json_response({"status": "ok", "store": f"in trouble{why}"})
        return web.json_response({"status": "ok", "store": "ok"})

    async def _metrics(self, request: web.Request) -> web.Response:
        if refused := await self.access.refuses_admin(request):
            return refusal(refused.status, refused.why)
        return web.Response(body=self.metrics.text(), headers={"content-type": self.metrics.content_type})


async def _add_report(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Tell the caller what compression did to its request."""
    response.headers.update(request.get(_REPORT, {}))


def _tracing(settings: Settings) -> Tracing:
    from .tracing import Tracing  # needs the extra `otel`

    return Tracing(dry_run=settings.dry_run)


def note_event(live: LiveConversation, event: SessionEvent, settings: Settings) -> None:
    """Log an event in one line. Text of the agent and its tools is left out unless `log_text` is set."""
    if event.result is not None and event.result.failure is not None:
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
