"""Running the proxy until somebody stops it: first politely, so that streams can finish, then at once."""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from ..compressor import Focus
from .app import Proxy
from .settings import Settings


@asynccontextmanager
async def serving(focus: Focus, settings: Settings) -> AsyncIterator[tuple[Proxy, str]]:
    """The proxy while it listens, and its address; port 0 takes a free one."""
    proxy = Proxy(focus, settings)
    runner = web.AppRunner(
        proxy.app(),
        access_log=None,
        auto_decompress=False,
        handler_cancellation=True,
        shutdown_timeout=settings.grace,
        max_line_size=64 * 1024,
        max_field_size=64 * 1024,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.host, settings.port, backlog=1024)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield proxy, f"http://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        proxy.stopping = True
        await runner.cleanup()


async def serve(focus: Focus, settings: Settings, started: Callable[[str], None]) -> None:
    """Until SIGINT or SIGTERM; a second one does not wait for streams."""
    _allow_many_connections()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with serving(focus, settings) as (_, address):
        started(address)
        await stop.wait()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)


def _allow_many_connections() -> None:
    """Every stream takes two; the usual soft limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
