"""The routes under `/ui`: the page, its data, live updates, and its one action, which restores a step or a passage.

No response may be framed, read by another page or cached.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qs

from aiohttp import web

from ... import __version__
from ...errors import StoreError
from ...pipeline.keep import target_tokens
from ...types import History, Result
from ..access import COOKIE, TOKEN, Refused, is_foreign, refusal, refuse_foreign
from ..conversations import LiveConversation
from ..upstream import base_urls
from .data import (
    Json,
    LeftOutStep,
    about_callers,
    about_session,
    found_steps,
    left_out_steps,
    span_texts,
    step_texts,
    whole_event,
    whole_session,
)

if TYPE_CHECKING:
    from ..app import Proxy

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FORM = """\
<form method="post" action="/ui/login">
<label for="token">Admin token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Open the dashboard</button>
</form>"""
_SESSION = "/ui/api/sessions/{id}"
_EVENT = _SESSION + r"/events/{event:\d{1,9}}"
_LONGEST_BODY = 4096
_ELSEWHERE = "Type the address into the browser, or open it from a bookmark: links on other sites do not lead here."
_AS_LOCALHOST = "Open it as http://127.0.0.1, or set an admin token (FOCUSCTX_ADMIN_TOKEN) to use it by another name."
_PAUSE = 0.25
"""Seconds between two live updates; changes in between are sent together."""
_SILENCE = 15.0
"""Seconds without changes after which a comment is sent, so that the connection does not look dead."""

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_dashboard(app: web.Application, proxy: Proxy) -> None:
    """Add everything under `/ui`. Call this before adding the route that forwards the rest."""
    dashboard = _Dashboard(proxy)
    app.on_shutdown.append(dashboard.end_updates)
    add, admin = app.router.add_route, dashboard.for_admins
    for name in _page_files():
        # The login page needs its styles and images; everything else requires access.
        add("GET", f"/ui/{name}", dashboard.file if name.endswith((".css", ".svg")) else admin(dashboard.file))
    add("POST", "/ui/login", dashboard.log_in)
    add("POST", "/ui/logout", dashboard.log_out)
    for path in ("/ui", "/ui/"):
        add("GET", path, dashboard.page)
    add("GET", "/ui/api/live", admin(dashboard.live))
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
    raise Refused(404, "unknown page or method: open /ui")


class _Dashboard:
    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._live_pages: set[asyncio.Task[object]] = set()
        """Requests of open pages, each with a stream of updates."""
        self._ending = False

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
            "token": TOKEN if settings.token or settings.callers else None,
            "login": settings.admin_token is not None,
        }

    def _callers(self) -> list[Json]:
        return about_callers(self._proxy.settings.callers, self._proxy.metrics.by_caller)

    def for_admins(self, handler: _Handler) -> _Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            try:
                await self._proxy.access.admit_admin(request)
                return await handler(request)
            except Refused as refused:
                return _refusal(refused)

        return guarded

    async def page(self, request: web.Request) -> web.Response:
        try:
            await self._proxy.access.admit_admin(request)
        except Refused as refused:
            return self._closed_page(request, refused)
        return _page("page.html")

    def _closed_page(self, request: web.Request, refused: Refused) -> web.Response:
        """Return the page for a visitor without access: the login form, or why it would not help."""
        if is_foreign(request):
            return _login_page(_ELSEWHERE, form=False)
        if self._proxy.settings.admin_token is None:
            needs_token = self._proxy.settings.token or self._proxy.settings.callers
            hint = "" if needs_token else f" {_AS_LOCALHOST}"
            return _login_page(f"The dashboard is {refused}.{hint}", form=False)
        return _login_page(
            "The dashboard needs the admin token. Ask the person who started the proxy for it.", form=True
        )

    async def file(self, request: web.Request) -> web.Response:
        return _page(request.path.rpartition("/")[2])

    async def log_in(self, request: web.Request) -> web.Response:
        try:
            body = await _small_body(request, "application/x-www-form-urlencoded")
        except Refused as refused:
            return _refusal(refused)
        if is_foreign(request):
            return _login_page(_ELSEWHERE, form=False)
        if self._proxy.settings.admin_token is None:
            return await self.page(request)  # this page is open, or says why it is not
        shown = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
        try:
            login = await self._proxy.access.log_in(request, shown)
        except Refused:
            return _login_page("That is not the admin token.", form=True)
        response = web.Response(status=303, headers={**_HEADERS, "Location": "/ui"})
        over_tls = request.secure or request.headers.get("x-forwarded-proto") == "https"
        response.set_cookie(COOKIE, login, path="/ui", httponly=True, samesite="Strict", secure=over_tls)
        return response

    async def log_out(self, request: web.Request) -> web.Response:
        try:
            refuse_foreign(request)
        except Refused as refused:
            return _refusal(refused)
        self._proxy.access.log_out(request)
        response = web.Response(status=204, headers=_HEADERS)
        response.del_cookie(COOKIE, path="/ui", httponly=True, samesite="Strict")
        return response

    async def sessions(self, _request: web.Request) -> web.Response:
        return _data(
            {
                "about": self._about(),
                "callers": self._callers(),
                "sessions": [about_session(live) for live in self._proxy.conversations],
            }
        )

    async def live(self, request: web.Request) -> web.StreamResponse:
        """Stream changes as server-sent events: at first everything, then what changed since the last update."""
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        known: dict[str, object] = {}
        with self._watcher() as news:
            await response.write(b"retry: 2000\n\n" + self._news(known, first=True))
            while not self._ending:
                await asyncio.sleep(_PAUSE)
                try:
                    await asyncio.wait_for(news.wait(), _SILENCE)
                except TimeoutError:
                    await response.write(b": still here\n\n")
                    continue
                news.clear()
                await response.write(self._news(known))
        return response

    async def end_updates(self, _app: web.Application) -> None:
        """End all streams soon, so that open pages do not delay the proxy's stop; they reconnect by themselves."""
        self._ending = True
        self._proxy.announce()
        if self._live_pages:
            _, stuck = await asyncio.wait(self._live_pages, timeout=4 * _PAUSE)
            for task in stuck:
                task.cancel()

    @contextmanager
    def _watcher(self) -> Iterator[asyncio.Event]:
        task = asyncio.current_task()
        assert task is not None
        news = asyncio.Event()
        self._live_pages.add(task)
        self._proxy.watchers.add(news)
        try:
            yield news
        finally:
            self._proxy.watchers.discard(news)
            self._live_pages.discard(task)

    def _news(self, known: dict[str, object], *, first: bool = False) -> bytes:
        """Return what the page does not know yet, and bring `known` up to date."""
        conversations = self._proxy.conversations
        now = {live.id: _stamp(live) for live in conversations}
        changed = [about_session(live) for live in conversations if known.get(live.id) != now[live.id]]
        gone = sorted(known.keys() - now.keys())
        known.clear()
        known.update(now)
        news = {"sessions": changed, "gone": gone, "callers": self._callers()}
        if first:
            news["about"] = self._about()
        return f"data: {json.dumps(news)}\n\n".encode() if first or changed or gone else b""

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
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "application/json"})
        response.headers["Content-Disposition"] = 'attachment; filename="focusctx-export.json"'
        await response.prepare(request)
        await response.write(f'{json.dumps(head)[:-1]}, "sessions": ['.encode())
        separator = ""
        for live in list(self._proxy.conversations):
            content = json.dumps(whole_session(live))
            await response.write(f"{separator}\n{content}".encode())
            separator = ","
            await asyncio.sleep(0)
        await response.write(b"\n]}\n")
        await response.write_eof()
        return response

    async def session(self, request: web.Request) -> web.Response:
        return _data(whole_session(self._live(request)))

    async def event(self, request: web.Request) -> web.Response:
        live, number = self._live(request), int(request.match_info["event"])
        event = whole_event(live, number)
        if event is None:
            raise Refused(404, f"the session has no event {number}")
        event["restored"] = {**dict.fromkeys(event.pop("back"), 0.0), **live.restored}
        return _data(event)

    async def span(self, request: web.Request) -> web.Response:
        wanted = int(request.match_info["span"])
        texts = await asyncio.to_thread(span_texts, self._result(request), wanted)
        if texts is None:
            raise Refused(404, f"the event has no span s_{wanted}")
        return _data(texts)

    async def left_out(self, request: web.Request) -> web.Response:
        live = self._live(request)
        steps, missing = await self._left_out(live)
        found = await asyncio.to_thread(found_steps, steps, request.query.get("query", ""))
        return _data({"steps": found, "total": len(steps), "missing": missing, "restored": live.restored})

    async def left_out_span(self, request: web.Request) -> web.Response:
        wanted = int(request.match_info["span"])
        steps, _ = await self._left_out(self._live(request))
        step = next((step for step in steps if step.span.index == wanted), None)
        if step is None:
            raise Refused(404, f"s_{wanted} is not left out, or its original is not in the store any more")
        return _data(await asyncio.to_thread(step_texts, step))

    async def _left_out(self, live: LiveConversation) -> tuple[list[LeftOutStep], list[int]]:
        try:
            return await asyncio.to_thread(left_out_steps, live)
        except StoreError as error:
            raise Refused(503, f"the store could not be read, try again later: {error}") from error

    async def turn(self, request: web.Request) -> web.Response:
        wanted, turns = int(request.match_info["turn"]), self._history(request).user_turns
        if wanted >= len(turns):
            raise Refused(404, "the event has no user message with that number")
        return _data({"text": turns[wanted].text})

    async def restore(self, request: web.Request) -> web.Response:
        body = await _small_body(request, "application/json")
        live = self._live(request)
        try:
            asked = json.loads(body)
        except ValueError as error:
            raise Refused(400, "the body is not valid JSON") from error
        named = asked if isinstance(asked, dict) else {}
        span, passage = named.get("span"), named.get("passage")
        if type(span) is not int or not (passage is None or (type(passage) is int and min(span, passage) > 0)):
            raise Refused(400, 'expected {"span": 7}, or {"span": 7, "passage": 2} for one passage of it')
        try:
            obstacle = await live.restore(span, passage)
        except StoreError as error:
            raise Refused(503, f"the store could not be written, try again later: {error}") from error
        if obstacle:
            raise Refused(409, obstacle)
        self._proxy.announce()
        return _data({"restored": live.restored})

    def _live(self, request: web.Request) -> LiveConversation:
        live = self._proxy.conversations.with_id(request.match_info["id"])
        if live is None:
            raise Refused(404, "this session is not in memory any more: go back to the list of sessions")
        return live

    def _result(self, request: web.Request) -> Result:
        events = self._live(request).events
        number = int(request.match_info["event"])
        result = events[number - 1].result if 1 <= number <= len(events) else None
        if result is None or result.history is None:
            raise Refused(404, f"event {number} has no history")
        return result

    def _history(self, request: web.Request) -> History:
        history = self._result(request).history
        assert history is not None
        return history


async def _small_body(request: web.Request, kind: str) -> bytes:
    if request.content_type != kind:
        raise Refused(415, f"expected {kind}")
    length = request.content_length
    if length is None or length > _LONGEST_BODY:
        raise Refused(413, f"expected a Content-Length of at most {_LONGEST_BODY} bytes")
    return await request.content.readexactly(length)


def _stamp(live: LiveConversation) -> tuple[float, int]:
    """Return a value that changes with every request of a conversation and every restored step."""
    return live.steps[-1].time if live.steps else 0.0, len(live.restored)


@cache
def _page_files() -> dict[str, str]:
    """Return the page's files by name. They contain nothing about any conversation."""
    shared = files("focusctx").joinpath("look.css")
    own = files(__package__).joinpath("page").iterdir()
    return {file.name: file.read_text("utf-8") for file in (shared, *own)}


def _page(name: str) -> web.Response:
    kind = _KINDS[name.rpartition(".")[2]]
    return web.Response(text=_page_files()[name], content_type=kind, charset="utf-8", headers=_HEADERS)


def _login_page(words: str, *, form: bool) -> web.Response:
    """Return the page for visitors without access: `words`, and the login form if `form` is set."""
    text = Template(_page_files()["login.html"]).substitute(words=escape(words), form=_FORM if form else "")
    # Under `no-referrer` a browser does not send the page that a form came from.
    headers = {**_HEADERS, "Referrer-Policy": "same-origin"}
    return web.Response(status=403, text=text, content_type="text/html", charset="utf-8", headers=headers)


def _data(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, text=json.dumps(value), content_type="application/json", headers=_HEADERS)


def _refusal(refused: Refused) -> web.Response:
    return refusal(refused.status, str(refused), _HEADERS.items())
