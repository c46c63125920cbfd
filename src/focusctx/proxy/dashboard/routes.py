"""The routes under `/ui`: the page, its data, and its one action, which restores a step or a passage."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qs

from aiohttp import web

from ... import __version__
from ...errors import StoreError
from ...pipeline.keep import target_tokens
from ...types import History, Result
from ..access import COOKIE, HEADER, Refusal, is_foreign
from ..conversations import LiveConversation
from ..upstream import base_urls
from . import responses
from .data import Json, about_callers, about_session, span_texts, whole_event, whole_session
from .left_out import LeftOutStep, found_steps, left_out_steps, step_texts
from .updates import Updates

if TYPE_CHECKING:
    from ..app import Proxy

_SESSION = "/ui/api/sessions/{id}"
_EVENT = _SESSION + r"/events/{event:\d{1,9}}"
_LONGEST_BODY = 4096
_ELSEWHERE = "Type the address into the browser, or open it from a bookmark: links on other sites do not lead here."
_AS_LOCALHOST = "Open it as http://127.0.0.1, or set an admin token (FOCUSCTX_ADMIN_TOKEN) to use it by another name."
_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_dashboard(app: web.Application, proxy: Proxy) -> None:
    """Add everything under `/ui`. Call this before adding the route that forwards the rest."""
    dashboard = _Dashboard(proxy)
    app.on_shutdown.append(dashboard.updates.end)
    add, admin = app.router.add_route, dashboard.for_admins
    for name in responses.page_files():
        # The login page needs its styles and images; everything else requires access.
        add("GET", f"/ui/{name}", dashboard.file if name.endswith((".css", ".svg")) else admin(dashboard.file))
    add("POST", "/ui/login", dashboard.log_in)
    add("POST", "/ui/logout", dashboard.log_out)
    for path in ("/ui", "/ui/"):
        add("GET", path, dashboard.page)
    add("GET", "/ui/api/live", admin(dashboard.updates.stream))
    add("GET", "/ui/api/sessions", admin(dashboard.sessions))
    add("GET", "/ui/api/export", admin(dashboard.export))
    add("GET", _SESSION, admin(dashboard.session))
    add("GET", _EVENT, admin(dashboard.event))
    add("GET", _EVENT + r"/spans/{span:\d{1,9}}", admin(dashboard.span))
    add("GET", _EVENT + r"/turns/{turn:\d{1,9}}", admin(dashboard.turn))
    add("GET", _SESSION + "/left-out", admin(dashboard.left_out))
    add("GET", _SESSION + r"/left-out/{span:\d{1,9}}", admin(dashboard.left_out_span))
    add("POST", _SESSION + "/restore", admin(dashboard.restore))
    add("*", "/ui{rest:(/.*)?}", admin(_nothing))


async def _nothing(_request: web.Request) -> web.Response:
    return responses.refusal(404, "unknown page or method: open /ui")


class _Refused(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Dashboard:
    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.updates = Updates(
            proxy.conversations,
            proxy.watchers,
            about=self._about,
            callers=self._callers,
            line=self._line,
            stamp=self._stamp,
        )

    def _about(self) -> Json:
        proxy, settings = self._proxy, self._proxy.settings
        return {
            "version": __version__,
            "dry_run": settings.dry_run,
            "draft": proxy.focus.draft.name,
            "budget": proxy.focus.config.budget,
            "target": target_tokens(proxy.focus.config),
            "rule": settings.rule,
            "base_urls": base_urls(settings.upstreams),
            "token": HEADER if settings.token or settings.callers else None,
            "login": settings.admin_token is not None,
        }

    def _callers(self) -> list[Json]:
        return about_callers(self._proxy.settings.callers, self._proxy.metrics.by_caller)

    def for_admins(self, handler: _Handler) -> _Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            if refusal := await self._proxy.access.refuses_admin(request):
                return responses.refusal(refusal.status, refusal.why)
            try:
                return await handler(request)
            except _Refused as refused:
                return responses.refusal(refused.status, str(refused))

        return guarded

    async def page(self, request: web.Request) -> web.Response:
        refusal = await self._proxy.access.refuses_admin(request)
        if refusal is None:
            return responses.page("page.html")
        if is_foreign(request):
            return responses.login_page(_ELSEWHERE, form=False)
        if self._proxy.settings.admin_token is None:
            needs_token = self._proxy.settings.token or self._proxy.settings.callers
            hint = "" if needs_token else f" {_AS_LOCALHOST}"
            return responses.login_page(f"The dashboard is {refusal.why}.{hint}", form=False)
        return responses.login_page(
            "The dashboard needs the admin token. Ask the person who started the proxy for it.", form=True
        )

    async def file(self, request: web.Request) -> web.Response:
        return responses.page(request.path.rpartition("/")[2])

    async def log_in(self, request: web.Request) -> web.Response:
        try:
            body = await _small_body(request, "application/x-www-form-urlencoded")
        except _Refused as refused:
            return responses.refusal(refused.status, str(refused))
        if is_foreign(request):
            return responses.login_page(_ELSEWHERE, form=False)
        if self._proxy.settings.admin_token is None:
            return await self.page(request)  # this page is open, or says why it is not
        shown = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
        login = await self._proxy.access.log_in(request, shown)
        if isinstance(login, Refusal):
            return responses.login_page("That is not the admin token.", form=True)
        response = web.Response(status=303, headers={**responses.HEADERS, "Location": "/ui"})
        over_tls = request.secure or request.headers.get("x-forwarded-proto") == "https"
        response.set_cookie(COOKIE, login, path="/ui", httponly=True, samesite="Strict", secure=over_tls)
        return response

    async def log_out(self, request: web.Request) -> web.Response:
        if is_foreign(request):
            return responses.refusal(403, "requests from web pages are not accepted")
        self._proxy.access.log_out(request)
        response = web.Response(status=204, headers=responses.HEADERS)
        response.del_cookie(COOKIE, path="/ui", httponly=True, samesite="Strict")
        return response

    async def sessions(self, _request: web.Request) -> web.Response:
        return responses.data(
            {
                "about": self._about(),
                "callers": self._callers(),
                "sessions": [self._line(live) for live in self._proxy.conversations],
            }
        )

    async def export(self, request: web.Request) -> web.StreamResponse:
        """Send everything that the dashboard knows in numbers, as one JSON document: events and savings, no texts.

        It is sent session by session, so that many of them do not hold up other requests.
        """
        sums = self._proxy.metrics.sums
        head = {
            "version": __version__,
            "time": time.time(),
            "about": self._about(),
            "totals": {**asdict(sums), "net": sums.known_net},
            "callers": self._callers(),
        }
        response = web.StreamResponse(headers={**responses.HEADERS, "Content-Type": "application/json"})
        response.headers["Content-Disposition"] = 'attachment; filename="focusctx-export.json"'
        await response.prepare(request)
        await response.write(f'{json.dumps(head)[:-1]}, "sessions": ['.encode())
        separator = ""
        for live in list(self._proxy.conversations):
            content = json.dumps({**whole_session(live), "restored": live.restored})
            await response.write(f"{separator}\n{content}".encode())
            separator = ","
            await asyncio.sleep(0)
        await response.write(b"\n]}\n")
        await response.write_eof()
        return response

    async def session(self, request: web.Request) -> web.Response:
        live = self._live(request)
        return responses.data({**whole_session(live), "restored": live.restored})

    async def event(self, request: web.Request) -> web.Response:
        live, number = self._live(request), int(request.match_info["event"])
        event = whole_event(live, number)
        if event is None:
            raise _Refused(404, f"the session has no event {number}")
        event["restored"] = {**dict.fromkeys(event.pop("back"), 0.0), **live.restored}
        return responses.data(event)

    async def span(self, request: web.Request) -> web.Response:
        wanted = int(request.match_info["span"])
        texts = await asyncio.to_thread(span_texts, self._result(request), wanted)
        if texts is None:
            raise _Refused(404, f"the event has no span s_{wanted}")
        return responses.data(texts)

    async def left_out(self, request: web.Request) -> web.Response:
        live = self._live(request)
        steps, missing = await self._left_out(live)
        found = await asyncio.to_thread(found_steps, steps, request.query.get("query", ""))
        return responses.data({"steps": found, "total": len(steps), "missing": missing, "restored": live.restored})

    async def left_out_span(self, request: web.Request) -> web.Response:
        wanted = int(request.match_info["span"])
        steps, _ = await self._left_out(self._live(request))
        step = next((step for step in steps if step.span.index == wanted), None)
        if step is None:
            raise _Refused(404, f"s_{wanted} is not left out, or its original is not in the store any more")
        return responses.data(await asyncio.to_thread(step_texts, step))

    async def _left_out(self, live: LiveConversation) -> tuple[list[LeftOutStep], list[int]]:
        try:
            return await asyncio.to_thread(left_out_steps, live)
        except StoreError as error:
            raise _Refused(503, f"the store could not be read, try again later: {error}") from error

    async def turn(self, request: web.Request) -> web.Response:
        wanted, turns = int(request.match_info["turn"]), self._history(request).user_turns
        if wanted >= len(turns):
            raise _Refused(404, "the event has no user message with that number")
        return responses.data({"text": turns[wanted].text})

    async def restore(self, request: web.Request) -> web.Response:
        body = await _small_body(request, "application/json")
        live = self._live(request)
        try:
            asked = json.loads(body)
        except ValueError as error:
            raise _Refused(400, "the body is not valid JSON") from error
        named = asked if isinstance(asked, dict) else {}
        span, passage = named.get("span"), named.get("passage")
        if type(span) is not int or not (passage is None or (type(passage) is int and min(span, passage) > 0)):
            raise _Refused(400, 'expected {"span": 7}, or {"span": 7, "passage": 2} for one passage of it')
        try:
            obstacle = await live.restore(span, passage)
        except StoreError as error:
            raise _Refused(503, f"the store could not be written, try again later: {error}") from error
        if obstacle:
            raise _Refused(409, obstacle)
        for watcher in self._proxy.watchers:
            watcher.set()
        return responses.data({"restored": live.restored})

    def _live(self, request: web.Request) -> LiveConversation:
        live = self._proxy.conversations.with_id(request.match_info["id"])
        if live is None:
            raise _Refused(404, "this session is not in memory any more: go back to the list of sessions")
        return live

    def _result(self, request: web.Request) -> Result:
        events = self._live(request).events
        number = int(request.match_info["event"])
        result = events[number - 1].result if 1 <= number <= len(events) else None
        if result is None or result.history is None:
            raise _Refused(404, f"event {number} has no history")
        return result

    def _history(self, request: web.Request) -> History:
        history = self._result(request).history
        assert history is not None
        return history

    def _line(self, live: LiveConversation) -> Json:
        return {**about_session(live), "restored": live.restored}

    def _stamp(self, live: LiveConversation) -> tuple[float, int]:
        return live.steps[-1].time if live.steps else 0.0, len(live.restored)


async def _small_body(request: web.Request, kind: str) -> bytes:
    if request.content_type != kind:
        raise _Refused(415, f"expected {kind}")
    length = request.content_length
    if length is None or length > _LONGEST_BODY:
        raise _Refused(413, f"expected a Content-Length of at most {_LONGEST_BODY} bytes")
    return await request.content.readexactly(length)
