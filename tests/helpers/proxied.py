"""The proxy on a real loopback socket, in a thread of its own: for agents that are no asyncio programs of ours."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from focusctx import Focus
from focusctx.proxy.app import Proxy
from focusctx.proxy.serve import serving
from focusctx.proxy.settings import Settings
from focusctx.proxy.upstream import Upstream
from focusctx.session.events import SessionEvent
from focusctx.types import Prompt


@contextmanager
def proxied(focus: Focus, upstream: str, **settings: Any) -> Iterator[tuple[Proxy, str]]:
    """The proxy in front of an upstream, and its address. Money is not weighed unless it is asked for."""
    chosen = {"store": "memory", "port": 0, "grace": 0.1, **settings}
    upstreams = (Upstream("provider", upstream),)
    started = threading.Event()
    running: list[tuple[Proxy, str, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        stop = asyncio.Event()
        async with serving(focus, Settings(upstreams, **chosen)) as (proxy, url):
            running.append((proxy, url, asyncio.get_running_loop(), stop))
            started.set()
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            started.set()

    thread = threading.Thread(target=run, name="proxy", daemon=True)
    thread.start()
    started.wait()
    assert running, "the proxy did not start"
    proxy, url, loop, stop = running[0]
    try:
        yield proxy, url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def events(proxy: Proxy) -> list[SessionEvent]:
    """Everything that happened in any conversation."""
    return [event for live in proxy.conversations for event in live.session.events if event.happened]


def every_third_and_the_newest(prompt: Prompt) -> str:
    """A plan that cites some spans and leaves others."""
    spans = prompt.history.spans
    cited = [span.label for span in spans if span.index % 3 == 0 or span in spans[-2:]]
    return f"Step: read the next page | Depends on: [{', '.join(cited)}]"
