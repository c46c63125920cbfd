"""Run the proxy until it is stopped: the first signal lets streams finish, a second one ends it at once."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.http import HttpProcessingError

from ..compressor import Focus
from ..errors import ConfigError, StoreError
from .app import Proxy
from .patience import KEEP_ALIVE, Connections
from .settings import Settings

_log = logging.getLogger("focusctx.proxy")
_log_of_http = logging.getLogger("focusctx.proxy.http")


def _no_quotes(record: logging.LogRecord) -> bool:
    """Replace aiohttp's message about invalid HTTP: it quotes the line, which may contain a key."""
    if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
        record.msg, record.args, record.exc_info = "refused a request that is no HTTP", (), None
    return True


_log_of_http.addFilter(_no_quotes)


@asynccontextmanager
async def serving(focus: Focus, settings: Settings) -> AsyncIterator[tuple[Proxy, str]]:
    """Run the proxy, and yield it with its address. Port 0 takes a free port."""
    proxy = Proxy(focus, settings)
    runner = web.AppRunner(
        proxy.app(),
        access_log=None,
        logger=_log_of_http,
        auto_decompress=False,
        handler_cancellation=True,
        keepalive_timeout=KEEP_ALIVE,
        shutdown_timeout=settings.grace / 2,  # aiohttp waits this long twice
        max_line_size=64 * 1024,
        max_field_size=64 * 1024,
    )
    await runner.setup()
    assert runner.server is not None
    connections = Connections(runner.server)
    watch = asyncio.create_task(connections.cut_off())
    server: asyncio.Server | None = None
    try:
        server = await _listen(connections, settings.host, settings.port)
        host, port = server.sockets[0].getsockname()[:2]
        yield proxy, f"http://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        proxy.stopping = True
        if server is not None:
            server.close()
        await runner.cleanup()
        watch.cancel()


async def serve(focus: Focus, settings: Settings, started: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; a second signal does not wait for streams."""
    _allow_many_connections()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with serving(focus, settings) as (proxy, address):
        try:
            await asyncio.to_thread(proxy.store.version, "", "")
        except StoreError as error:
            _log.warning("requests go up as they come until there is a store: %s", error)
        started(address)
        _collect_rarely()
        await stop.wait()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)


async def _listen(connections: Connections, host: str, port: int) -> asyncio.Server:
    try:
        return await asyncio.get_running_loop().create_server(connections, host, port, backlog=1024)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise ConfigError(f"cannot listen on {host}:{port}: {why}; choose another address with --listen") from error


def _collect_rarely() -> None:
    """Make full garbage collections rare. One walks all messages of all conversations and blocks the proxy: half a
    second for some hundred conversations. Nothing they hold is part of a cycle."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 1000)


def _allow_many_connections() -> None:
    """Raise the limit on open files: every stream takes two, and the usual soft limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
