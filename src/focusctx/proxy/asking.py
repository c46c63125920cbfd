"""Asking a provider: one request on a connection from the pool, with the faults of kept-alive connections made good."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from multidict import CIMultiDict
from yarl import URL

from .settings import is_loopback
from .upstream import Upstream

Body: TypeAlias = bytes | AsyncIterator[bytes] | None

_TRIES = 4
_AT_ONCE = 1.0
"""Seconds within which a connection that was closed while it lay idle shows that it is. Whoever breaks off later had
begun to answer: to ask again then could be to pay twice."""

_wants_new: ContextVar[bool] = ContextVar("wants_new", default=False)
_was_used: ContextVar[bool] = ContextVar("was_used", default=False)


@asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """Connections to the providers. A stream may be silent for as long as its agent cares to wait."""
    async with (
        aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, force_close=True) as unpooled,
        aiohttp.ClientSession(
            connector=_Pool(unpooled),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=256 * 1024,
            max_line_size=64 * 1024,
            max_field_size=64 * 1024,
        ) as http,
    ):
        yield http


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request on its way to a provider, all but its body."""

    upstream: Upstream
    method: str
    path: str
    headers: CIMultiDict[str]

    @property
    def url(self) -> URL:
        return URL(self.upstream.at(self.path), encoded=True)


class Ask(AbstractAsyncContextManager[aiohttp.ClientResponse]):
    """One request to a provider, and its answer."""

    def __init__(self, http: aiohttp.ClientSession, outgoing: Outgoing, body: Body) -> None:
        self._request = http, outgoing, body

    async def __aenter__(self) -> aiohttp.ClientResponse:
        self._answer = answer = await _send(*self._request)
        protocol = answer.connection.protocol if answer.connection is not None else None
        self._closed = protocol.closed if protocol is not None else None
        if self._closed is not None:
            self._closed.remove_done_callback(_hear)
            self._closed.add_done_callback(_hear)
            self._closed.add_done_callback(self._tell)
        return answer

    async def __aexit__(self, *_error: object) -> None:
        if self._closed is not None:
            self._closed.remove_done_callback(self._tell)
        self._answer.close()  # lets go of the connection: back to the pool if all was read, else it is cut

    def _tell(self, _closed: asyncio.Future[None]) -> None:
        """aiohttp closes a connection on which it cannot understand a chunk, but does not tell who waits for it."""
        content = self._answer.content
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the answer makes no sense"))


def told(error: Exception) -> tuple[int, str]:
    """What to say of a provider that did not answer. aiohttp's own words hold the URL, and with it perhaps a key."""
    match error:
        case TimeoutError():
            return 504, "no connection in time"
        case aiohttp.ClientConnectorError():
            return 502, f"no connection to {error.host}: {error.__cause__ or error.os_error}"
        case aiohttp.ClientResponseError() | aiohttp.ClientPayloadError():
            return 502, "its answer makes no sense"
        case _:
            return 502, "it broke off the connection without an answer"


async def _send(http: aiohttp.ClientSession, outgoing: Outgoing, body: Body) -> aiohttp.ClientResponse:
    """What a kept-alive connection lost is sent once more: direct, it had gone well. A stream cannot be sent twice,
    so it gets a new connection."""
    is_stream = not isinstance(body, bytes | None)
    if not is_stream:
        outgoing.headers.popall("content-length", None)
    _wants_new.set(is_stream)
    for tries_left in range(_TRIES - 1, -1, -1):
        started = time.monotonic()
        try:
            return await http.request(
                outgoing.method,
                outgoing.url,
                headers=outgoing.headers,
                data=body,
                allow_redirects=False,
                proxy=_proxy_for(outgoing.upstream.url),
            )
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            is_stale = _was_used.get() and time.monotonic() - started < _AT_ONCE
            if not tries_left or is_stream or not is_stale:
                raise
    raise AssertionError("the last try raises or returns")


class _Pool(aiohttp.TCPConnector):
    """Tells whether the connection it gives was used before, and gives a new one where that is wanted."""

    def __init__(self, unpooled: aiohttp.BaseConnector) -> None:
        super().__init__(limit=0, ttl_dns_cache=60)
        self._unpooled = unpooled
        self._given: WeakSet[ResponseHandler] = WeakSet()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        _was_used.set(False)
        if _wants_new.get():
            return await self._unpooled.connect(req, traces, timeout)
        connection = await super().connect(req, traces, timeout)
        if connection.protocol in self._given:
            _was_used.set(True)
        elif connection.protocol is not None:
            self._given.add(connection.protocol)
        return connection


def _hear(closed: asyncio.Future[None]) -> None:
    """Asyncio complains of errors that nobody asked for; this one may come when nobody cares any more."""
    if not closed.cancelled():
        closed.exception()


@lru_cache(maxsize=256)
def _proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address (HTTPS_PROXY, NO_PROXY), as agents would use it."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxy = getproxies().get(parts.scheme, "")
    usable = proxy.startswith(("http://", "https://")) and not is_loopback(host) and not proxy_bypass(host)
    return proxy if usable else None
