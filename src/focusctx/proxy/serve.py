"""Run the proxy until it is stopped: the first signal lets streams finish, a second one ends it at once."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from aiohttp import web
from aiohttp.http import HttpProcessingError

from ..compressor import Focus
from ..errors import ConfigError, StoreError
from .app import Connections, Proxy, Read
from .settings import Settings

_log = logging.getLogger("focusctx.proxy")
_log_of_http = logging.getLogger("focusctx.proxy.http")

KEEP_ALIVE = 630.0
"""Seconds that a connection may be idle between requests: longer than load balancers keep theirs."""
HANDSHAKE = 30.0
"""Seconds that a caller has for the TLS handshake."""


def _no_quotes(record: logging.LogRecord) -> bool:
    """Replace aiohttp's message about invalid HTTP: it quotes the line, which may contain a key."""
    if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
        record.msg, record.args, record.exc_info = "refused a request that is not valid HTTP", (), None
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
        server = await _listen(connections, settings.host, settings.port, proxy.tls)
        host, port = server.sockets[0].getsockname()[:2]
        yield proxy, f"{'https' if proxy.tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        proxy.stopping = True
        if server is not None:
            server.close()
        await runner.cleanup()
        watch.cancel()


async def serve(
    focus: Focus, settings: Settings, started: Callable[[str], None], read_again: Read | None = None
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal does not wait for streams. SIGHUP reads the settings again."""
    _allow_many_connections()
    stop = asyncio.Event()
    _stop_on_signals(stop)
    async with serving(focus, settings) as (proxy, address):
        if read_again is not None and hasattr(signal, "SIGHUP"):
            with suppress(NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, proxy.reload, read_again)
        try:
            await asyncio.to_thread(proxy.store.version, "", "")
        except StoreError as error:
            _log.warning("requests are forwarded unchanged until the store answers: %s", error)
        started(address)
        _collect_rarely()
        await stop.wait()
        for number in _STOPS:
            with suppress(NotImplementedError):
                asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)


_STOPS = (signal.SIGINT, signal.SIGTERM)


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in _STOPS:
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:  # event loops on Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))


async def _listen(connections: Connections, host: str, port: int, tls: ssl.SSLContext | None) -> asyncio.Server:
    handshake = HANDSHAKE if tls else None
    try:
        return await asyncio.get_running_loop().create_server(
            connections, host, port, backlog=1024, ssl=tls, ssl_handshake_timeout=handshake
        )
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
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    with suppress(OSError, ValueError):  # macOS names a higher limit than it allows
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
