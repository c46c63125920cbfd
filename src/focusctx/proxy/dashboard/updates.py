"""Live updates: one stream of server-sent events per open page, with the changes since the last one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from ..conversations import LiveConversation, LiveConversations
from .data import Json
from .responses import HEADERS

_PAUSE = 0.25
"""Seconds between two updates; changes in between are sent together."""
_SILENCE = 15.0
"""Seconds without changes after which a comment is sent, so that the connection does not look dead."""


class Updates:
    """Sends updates to open pages. The proxy sets `watchers`; a conversation is sent if its `stamp` changed."""

    def __init__(
        self,
        conversations: LiveConversations,
        watchers: set[asyncio.Event],
        *,
        about: Callable[[], Json],
        callers: Callable[[], list[Json]],
        line: Callable[[LiveConversation], Json],
        stamp: Callable[[LiveConversation], object],
    ) -> None:
        self._conversations = conversations
        self._watchers = watchers
        self._about = about
        self._callers = callers
        self._line = line
        self._stamp = stamp
        self._open: set[asyncio.Task[object]] = set()
        self._ending = False

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
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

    async def end(self, _app: web.Application) -> None:
        """End all streams soon, so that open pages do not delay the proxy's stop; they reconnect by themselves."""
        self._ending = True
        for watcher in self._watchers:
            watcher.set()
        if self._open:
            _, stuck = await asyncio.wait(self._open, timeout=4 * _PAUSE)
            for task in stuck:
                task.cancel()

    @contextmanager
    def _watcher(self) -> Iterator[asyncio.Event]:
        task = asyncio.current_task()
        assert task is not None
        news = asyncio.Event()
        self._open.add(task)
        self._watchers.add(news)
        try:
            yield news
        finally:
            self._watchers.discard(news)
            self._open.discard(task)

    def _news(self, known: dict[str, object], *, first: bool = False) -> bytes:
        """Return what the page does not know yet, and bring `known` up to date."""
        now = {live.id: self._stamp(live) for live in self._conversations}
        changed = [self._line(live) for live in self._conversations if known.get(live.id) != now[live.id]]
        gone = sorted(known.keys() - now.keys())
        known.clear()
        known.update(now)
        news = {"sessions": changed, "gone": gone, "callers": self._callers()}
        if first:
            news["about"] = self._about()
        return f"data: {json.dumps(news)}\n\n".encode() if first or changed or gone else b""
