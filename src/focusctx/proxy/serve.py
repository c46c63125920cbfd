"""Run the proxy until it is stopped: the first signal lets streams finish, a second one ends it at once.

aiohttp has one timer, for connections between requests. `Connections` adds one for clients that do not finish the
head of a request.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from aiohttp import web
from aiohttp.http import HttpProcessingError

from ..compressor import Focus
from ..errors import ConfigError, StoreError
from .app import Proxy
from .reload import Read, reload
from .settings import Settings
from .tls import HANDSHAKE

_log = logging.getLogger("focusctx.proxy")
_log_of_http = logging.getLogger("focusctx.proxy.http")

KEEP_ALIVE = 630.0
"""Seconds that a connection may be idle between requests: longer than load balancers keep theirs."""
HEAD = 30.0
"""Seconds within which a head must be complete, counted from its first byte or from the start of the connection."""


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
    app = proxy.app()
    app.middlewares.append(note_request)
    runner = web.AppRunner(
        app,
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
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload, proxy, read_again)
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
async def note_request(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Tell the connection when a head is complete, and when the request has been answered."""
    connection = request.transport.get_protocol() if request.transport is not None else None
    if not isinstance(connection, _Connection):
        return await handler(request)
    connection.begin_request()
    try:
        return await handler(request)
    finally:
        connection.end_request()
