"""Asking a provider: one request on a connection from the pool, with the faults of kept-alive connections made good."""

from __future__ import annotations

import time
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from multidict import CIMultiDict

from .answer import Answer, BrokenOff
from .connection import Body, Connection
from .pool import Pool, Way, way_to
from .upstream import Upstream

_TRIES = 4
_AT_ONCE = 1.0
"""Seconds within which a connection that was closed while it lay idle shows that it is. Whoever breaks off later had
begun to answer: to ask again then could be to pay twice."""


class Outgoing(NamedTuple):
    """A request on its way to a provider, all but its body."""

    upstream: Upstream
    method: str
    path: str
    headers: CIMultiDict[str]


class Ask(AbstractAsyncContextManager[Answer]):
    """One request to a provider, and its answer. What `connection` is, is of interest where it was upgraded."""

    connection: Connection

    def __init__(self, pool: Pool, outgoing: Outgoing, body: Body) -> None:
        self._pool = pool
        self._outgoing = outgoing
        self._body = body
        self._way = way_to(outgoing.upstream.url)

    async def __aenter__(self) -> Answer:
        """What a kept-alive connection lost is sent once more: direct, it had gone well. A stream cannot be sent twice,
        so it gets a new connection."""
        is_stream = self._body is not None and not isinstance(self._body, bytes)
        head = _head(self._outgoing, self._body, self._way)
        only_head = self._outgoing.method == "HEAD"
        for tries_left in range(_TRIES - 1, -1, -1):
            kept = self._pool.take(self._way) if tries_left and not is_stream else None
            connection = kept or await self._pool.connect(self._way)
            may_be_stale, started = connection.was_used, time.monotonic()
            try:
                answer = await connection.ask(head, self._body, only_head=only_head)
            except BrokenOff:
                connection.close()
                if not may_be_stale or time.monotonic() - started > _AT_ONCE:
                    raise
            except BaseException:
                connection.close()
                raise
            else:
                self.connection = connection
                return answer
        raise AssertionError("a new connection is not stale")

    async def __aexit__(self, *_error: object) -> None:
        self._pool.give(self._way, self.connection)


def _head(outgoing: Outgoing, body: Body, way: Way) -> bytes:
    """The request up to its body, as it goes over the wire."""
    headers = outgoing.headers
    url = outgoing.upstream.at(outgoing.path)
    target = url if way.is_forwarded else "/" + url.split("/", 3)[3]
    lines = [f"{outgoing.method} {target} HTTP/1.1\r\nhost: {way.provider.name}\r\n"]
    if isinstance(body, bytes):
        headers.popall("content-length", None)
        lines.append(f"content-length: {len(body)}\r\n")
    elif "content-length" not in headers:
        if body is not None:
            lines.append("transfer-encoding: chunked\r\n")
        elif outgoing.method in ("POST", "PUT", "PATCH"):
            lines.append("content-length: 0\r\n")
    if way.is_forwarded and way.authorization:
        lines.append(f"proxy-authorization: {way.authorization}\r\n")
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    lines.append("\r\n")
    return "".join(lines).encode("utf-8", "surrogateescape")
