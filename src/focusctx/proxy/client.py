"""Requests to providers, on aiohttp's client, and their answers: checked, and forwarded byte for byte without delay.

WebSockets are relayed in both directions: messages, pings, pongs and close codes.

A POST that may have reached its provider is not sent again: the provider may have worked on it and billed it. aiohttp
repeats GET, HEAD, OPTIONS, PUT and DELETE once if the connection was lost before an answer; HTTP allows it for these.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from io import BytesIO
from typing import Any, TypeAlias

import aiohttp
from aiohttp import (
    ClientHandlerType,
    ClientRequest,
    ClientResponse,
    ClientWebSocketResponse,
    HttpVersion11,
    WSMsgType,
    web,
)
from multidict import CIMultiDict, MultiMapping
from yarl import URL

from ..egress import proxy_for
from .access import caller_of, refusal
from .request import TooSlow
from .upstream import Upstream, headers_down, listed

_log = logging.getLogger("focusctx.proxy")

_KEEP_IDLE = 4.0
"""Seconds that an idle connection is kept. Some servers (uvicorn, Node) close theirs after five. A request sent while
the server closes is lost, and a POST cannot be repeated: so this side closes first."""
_CONNECT_TIMEOUT = 30.0
_PROBE_AFTER = 60
"""Seconds of silence after which TCP checks that the provider is still there. An answer may take many minutes, and
middleboxes forget silent connections."""
_PROBE_OPTION = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None)  # Linux, macOS
_LARGE = 1 << 20
"""Bytes above which aiohttp wants a body in pieces."""
_NOT_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that aiohttp would add to requests that lack them."""
_LOG_INTERVAL = 60.0
"""Seconds between two log lines about the same provider."""
_HANDSHAKE = re.compile(r"sec-websocket-(key|version|extensions|protocol|accept)", re.IGNORECASE)
_BROKE_OFF = "the connection broke in the middle of its answer"
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_DECODED = frozenset({"gzip", "deflate", "br", "zstd"})
"""Content encodings that aiohttp decodes."""
_PASSED_ON = (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.PING, WSMsgType.PONG)
_NORMAL_CLOSE = 1000

_Socket: TypeAlias = "web.WebSocketResponse[bool] | ClientWebSocketResponse[bool]"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request on its way to a provider, without its body and the headers that describe the body's length."""

    upstream: Upstream
    method: str
    path: str
    headers: CIMultiDict[str]


@dataclass(frozen=True, slots=True)
class Upload:
    """A body that is forwarded as it arrives."""

    pieces: AsyncIterator[bytes]
    length: int | None
    """Bytes of all pieces; None if the caller did not state them."""


Body: TypeAlias = bytes | Upload | None


class NoAnswer(Exception):
    """A provider gave no answer, or broke off in the middle of one. The message contains no URL and so no key."""

    def __init__(self, why: str, status: int = 502) -> None:
        super().__init__(why)
        self.status = status
        """HTTP status that the agent gets."""


class Client:
    """Sends requests to providers. Connections are kept for a few seconds for the next request of the same caller.

    Callers never share a connection, so nothing that one caller or provider leaves on it can reach another caller.
    (aiohttp would take an answer that arrives on an idle connection for the answer to the next request.)
    """

    def __init__(self) -> None:
        self._proxies: dict[str, str | None] = {}
        """HTTP proxies by the name of the upstream that they lead to."""
        self._outages = Outages()
        self._context: ssl.SSLContext
        self._pools: dict[bytes, Pool] = {}
        """Pools by a hash of the credentials that are sent to the provider."""
        self._looked_at = 0.0
        """Time of the last search for unused pools."""

    def use(self, upstreams: Iterable[Upstream]) -> None:
        """Prepare for requests to these upstreams. Requests to earlier ones may still be on their way."""
        self._proxies |= {upstream.name: proxy_for(upstream.url) for upstream in upstreams}

    async def __aenter__(self) -> Client:
        self._context = ssl.create_default_context()  # aiohttp's own does not see SSL_CERT_FILE set after its import
        self._context.set_alpn_protocols(["http/1.1"])
        return self

    async def __aexit__(self, *_error: object) -> None:
        for pool in self._pools.values():
            await pool.close()
        self._pools.clear()

    @asynccontextmanager
    async def ask(self, outgoing: Outgoing, body: Body, *, decode: bool = False) -> AsyncIterator[Answer]:
        """Send a request and read its answer, decompressed if `decode` is set. Raises `NoAnswer`."""
        async with self._pool_for(outgoing) as pool:
            response = await self._send(pool, outgoing, body, decode=decode)
            try:
                with closing(Answer(response, is_decoded=decode)) as answer:
                    yield answer
            finally:
                response.close()

    @asynccontextmanager
    async def open_websocket(
        self, outgoing: Outgoing, protocols: Iterable[str], *, compress: bool
    ) -> AsyncIterator[tuple[Answer, ClientWebSocketResponse[bool] | None]]:
        """Request a WebSocket. Yields the provider's answer, and the socket unless the provider refused it."""
        answered: list[ClientResponse] = []

        async def stop_at_a_refusal(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
            response = await handler(request)
            answered.append(response)
            if response.status != 101:  # may be a redirect, which aiohttp would follow
                raise _UpgradeRefused
            return response

        headers = [(name, value) for name, value in outgoing.headers.items() if not _HANDSHAKE.fullmatch(name)]
        async with self._pool_for(outgoing) as pool, pool.new_session(middlewares=[stop_at_a_refusal]) as session:
            try:
                opened = await session.ws_connect(
                    _url(outgoing),
                    protocols=protocols,
                    headers=headers,
                    proxy=self._proxies[outgoing.upstream.name],
                    compress=15 if compress else 0,
                    autoclose=False,
                    autoping=False,
                    max_msg_size=0,
                    decode_text=False,
                )
            except _UpgradeRefused:
                with closing(Answer(answered[-1])) as answer:
                    yield answer, None
            except aiohttp.WSServerHandshakeError as error:
                raise NoAnswer(f"invalid WebSocket handshake: {error.message}") from error
            except aiohttp.ClientError as error:
                raise _no_answer(error) from error
            else:
                yield Answer(answered[-1], is_upgrade=True), opened
            finally:
                for response in answered:
                    response.close()

    @asynccontextmanager
    async def _pool_for(self, outgoing: Outgoing) -> AsyncIterator[Pool]:
        """Yield the caller's pool for one request, and log the request if it fails."""
        caller = caller_of(outgoing.headers, outgoing.path.partition("?")[2])
        pool = self._pools.get(caller)
        is_new = pool is None
        if pool is None:
            pool = self._pools[caller] = Pool(self._context)
        pool.requests += 1
        try:
            if is_new:
                await self._close_unused_pools()
            await _notice_closed_connections()
            yield pool
        except NoAnswer as error:
            if error.status >= 500:
                self._outages.failed(outgoing.upstream.name, str(error))
            raise
        finally:
            pool.requests -= 1
            pool.idle_since = time.monotonic()

    async def _close_unused_pools(self) -> None:
        before = time.monotonic() - _KEEP_IDLE
        if self._looked_at > before:  # looking at all of them for each new caller would be slow
            return
        self._looked_at = time.monotonic()
        unused = [caller for caller, pool in self._pools.items() if not pool.requests and pool.idle_since < before]
        for caller in unused:
            if not self._pools[caller].requests:
                await self._pools.pop(caller).close()

    async def _send(self, pool: Pool, outgoing: Outgoing, body: Body, *, decode: bool) -> ClientResponse:
        headers, data = outgoing.headers, _data(body)
        if isinstance(body, Upload) and body.length is not None:
            headers = headers.copy()
            headers["Content-Length"] = str(body.length)
        try:
            return await pool.session.request(
                outgoing.method,
                _url(outgoing),
                headers=headers,
                data=data,
                proxy=self._proxies[outgoing.upstream.name],
                allow_redirects=False,
                auto_decompress=decode,
            )
        except aiohttp.ClientError as error:
            if isinstance(error.__cause__, TooSlow):  # the caller is at fault, not the provider
                raise error.__cause__ from error
            raise _no_answer(error) from error


class Pool:
    """The connections of one caller."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=_KEEP_IDLE, ssl=context, socket_factory=_new_socket
        )
        self.session = self.new_session()
        self.requests = 0
        """Requests in progress."""
        self.idle_since = 0.0

    def new_session(self, **options: Any) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=self.connector,
            connector_owner=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=_CONNECT_TIMEOUT),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_NOT_ADDED,
            auto_decompress=False,
            max_line_size=64 * 1024,
            max_field_size=256 * 1024,
            max_headers=1000,
            **options,
        )

    async def close(self) -> None:
        await self.session.close()
        await self.connector.close()


class Outages:
    """Logs failing providers without flooding the log: a line at the first failure, then one per interval."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged: dict[str, float] = {}
        """Time of the last line about each provider."""
        self._unlogged: dict[str, int] = {}
        """Failures of each provider since that line."""

    def failed(self, provider: str, why: str) -> None:
        """Record a failed request; `why` contains no URL and no key."""
        now = self._clock()
        logged = self._logged.get(provider)
        if logged is not None and now - logged < _LOG_INTERVAL:
            self._unlogged[provider] = self._unlogged.get(provider, 0) + 1
            return
        self._logged[provider] = now
        more = self._unlogged.pop(provider, 0)
        since = f" ({more:,} more failed since the last line about it)" if more else ""
        _log.warning("%s: %s%s", provider, why, since)


class _UpgradeRefused(Exception):
    """The provider answered a WebSocket handshake with another status than 101."""


async def _notice_closed_connections() -> None:
    """Let the event loop read from idle connections, so that none is used that its provider has already closed."""
    await asyncio.sleep(0)  # asks the system which sockets have data,
    await asyncio.sleep(0)  # and reads from them


def _url(outgoing: Outgoing) -> URL:
    return URL(outgoing.upstream.at(outgoing.path), encoded=True)


def _data(body: Body) -> bytes | BytesIO | AsyncIterator[bytes] | None:
    if isinstance(body, Upload):
        return body.pieces
    return BytesIO(body) if body is not None and len(body) > _LARGE else body


def _new_socket(address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if _PROBE_OPTION is not None:
        made.setsockopt(socket.IPPROTO_TCP, _PROBE_OPTION, _PROBE_AFTER)
    return made


def _no_answer(error: aiohttp.ClientError) -> NoAnswer:
    """Describe the error. aiohttp's own messages contain the URL, and with it perhaps a key."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return NoAnswer(f"no connection within {_CONNECT_TIMEOUT:.0f} s", 504)
        case aiohttp.ClientHttpProxyError():
            return NoAnswer(f"the proxy did not open a connection to it: {error.status} {error.message}")
        case aiohttp.ClientConnectorError():
            return NoAnswer(f"no connection to {error.host}: {_reason(error.os_error)}")
        case aiohttp.ClientResponseError():
            return NoAnswer("invalid HTTP response")
        case aiohttp.InvalidURL():
            return NoAnswer("the request's path cannot be part of a URL", 400)
    if isinstance(error.__cause__, web.RequestPayloadError):
        return NoAnswer("the request broke off", 400)
    return NoAnswer("the connection broke before an answer; the request may have reached it, and was not repeated")


def _reason(error: OSError) -> str:
    """Return the system's description of an error; asyncio's own names its internal calls."""
    if isinstance(error, ssl.SSLError | ssl.CertificateError) or error.errno is None or error.errno < 0:
        return str(error)
    return os.strerror(error.errno)


class Answer:
    """An answer whose head has arrived. Iterate over it to read the body piece by piece.

    Raises `NoAnswer` for a head that cannot be forwarded. `is_decoded` means that aiohttp decompresses the body.
    """

    def __init__(self, response: ClientResponse, *, is_decoded: bool = False, is_upgrade: bool = False) -> None:
        _check(response, is_upgrade=is_upgrade)
        self.status = response.status
        self.reason = response.reason or ""
        self.headers: MultiMapping[str] = response.headers
        self.length: int | None = response.content_length
        """Bytes of the body, if the head states them."""
        if is_decoded and _encoding(response.headers) in _DECODED:
            self.headers = CIMultiDict(response.headers)
            self.headers.popall("content-encoding")
            self.length = None
        self._content = response.content
        self._is_chunked = "transfer-encoding" in response.headers
        self._has_length = "content-length" in response.headers
        self._ended_with_connection = False
        protocol = response.connection.protocol if response.connection is not None else None
        self._lost = None if protocol is None or is_upgrade else protocol.closed
        """Done when the connection is lost; None if the whole body arrived before that, and for upgrades."""
        if self._lost is not None:
            self._content.on_eof(self._note_end)
            self._lost.add_done_callback(self._end_if_lost)

    @property
    def ok(self) -> bool:
        return self.status < 400

    @property
    def encoding(self) -> str:
        """Content encoding of the body; empty if it is not compressed."""
        found = _encoding(self.headers)
        return "" if found == "identity" else found

    @property
    def is_complete(self) -> bool:
        """True if the whole body has arrived."""
        return self._content.is_eof() and not self._was_cut()

    def unread(self) -> bytes:
        """Return the bytes of the body that have arrived and were not read yet."""
        return self._content.read_nowait()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await self._content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer(_BROKE_OFF) from error
        if piece:
            return piece
        if self._was_cut():
            raise NoAnswer(_BROKE_OFF)
        raise StopAsyncIteration

    def close(self) -> None:
        """Stop watching the connection, which may serve another request next."""
        if self._lost is not None:
            self._lost.remove_done_callback(self._end_if_lost)
            self._lost.remove_done_callback(_ignore)
            self._lost.add_done_callback(_ignore)

    def _end_if_lost(self, lost: asyncio.Future[None]) -> None:
        """End the body with an error where aiohttp would keep its reader waiting: after an invalid chunk size."""
        _ignore(lost)
        if not self._content.is_eof() and self._content.exception() is None:
            self._content.set_exception(aiohttp.ClientPayloadError(_BROKE_OFF))

    def _note_end(self) -> None:
        self._ended_with_connection = self._lost is not None and self._lost.done()

    def _was_cut(self) -> bool:
        """True if the body was cut off although aiohttp takes it for complete.

        A chunked body ends with a chunk and not with the connection, but aiohttp misses `chunked` before a tab.
        If the end of the connection is the only sign of the body's end, it must have been closed and not reset.
        """
        if self._lost is None or not self._ended_with_connection:
            return False
        was_reset = self._lost.cancelled() or self._lost.exception() is not None
        return self._is_chunked or (was_reset and not self._has_length)


def _ignore(lost: asyncio.Future[None]) -> None:
    """Retrieve the exception, or asyncio logs that it was never retrieved."""
    if not lost.cancelled():
        lost.exception()


def _check(response: ClientResponse, *, is_upgrade: bool) -> None:
    """Reject heads that an agent would not understand, or that would mislead it about where the body ends."""
    if response.status < 200 and not is_upgrade:
        raise NoAnswer(f"invalid HTTP response: status {response.status:03} was not asked for")
    if _CONTROL.search("".join([response.reason or "", *response.headers.values()])):
        raise NoAnswer("invalid HTTP response: control characters in its head")
    transfer = ",".join(response.headers.getall("transfer-encoding", ())).strip()
    if transfer and transfer.lower() != "chunked":
        raise NoAnswer("invalid HTTP response: unknown transfer encoding")


def _encoding(headers: MultiMapping[str]) -> str:
    return ",".join(headers.getall("content-encoding", ())).strip().lower()


async def pass_down(
    request: web.BaseRequest, answer: Answer, watch: Callable[[bytes], None] | None = None
) -> web.StreamResponse:
    """Send the provider's answer as it arrives; `watch` is called with each piece."""
    headers = headers_down(answer.headers)
    if answer.is_complete and request.method != "HEAD":  # all of it has arrived: one write is enough
        body = answer.unread()
        if watch is not None:
            watch(body)
        return web.Response(status=answer.status, reason=answer.reason, headers=headers, body=body)
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
    response.content_length = answer.length
    await stream_down(request, response, answer if watch is None else _watched(answer, watch))
    return response


async def _watched(chunks: AsyncIterator[bytes], watch: Callable[[bytes], None]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        watch(chunk)
        yield chunk


async def stream_down(request: web.BaseRequest, response: web.StreamResponse, chunks: AsyncIterator[bytes]) -> None:
    """Send a stream chunk by chunk. If it breaks off, cut the agent's connection: it must not look finished."""
    await response.prepare(request)
    try:
        async for chunk in chunks:
            await response.write(chunk)
        await response.write_eof()
    except NoAnswer:
        if request.transport is not None:
            _cut(request.transport, looks_finished=request.version < HttpVersion11)
        raise


def _cut(transport: asyncio.Transport, *, looks_finished: bool) -> None:
    """Cut the connection; with a reset if `looks_finished`, as HTTP/1.0 takes a close for the end of the answer."""
    if looks_finished and (end := transport.get_extra_info("socket")) is not None:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    transport.close()


# ----------------------------------------------------------------------------------------------------------- WebSockets


async def relay(request: web.BaseRequest, client: Client, outgoing: Outgoing) -> web.StreamResponse:
    """Connect agent and provider. If the provider refuses the WebSocket, the agent gets that answer."""
    if request.content_length or "transfer-encoding" in request.headers:
        return refusal(400, "a WebSocket handshake must not have a body")
    offered = listed(request.headers, "sec-websocket-protocol")
    if not web.WebSocketResponse(protocols=offered).can_prepare(request).ok:
        return refusal(400, "invalid WebSocket handshake")
    compress = "permessage-deflate" in request.headers.get("sec-websocket-extensions", "")
    async with client.open_websocket(outgoing, offered, compress=compress) as (answer, above):
        if above is None:
            return await pass_down(request, answer)
        below = _socket_below(answer, above, compress=compress)
        await below.prepare(request)
        close = await _pass_both_ways(above, below)
        if close is not None:
            await above.close(code=close.code, message=close.reason)
            await below.close(code=close.code, message=close.reason)
        elif request.transport is not None:  # one side vanished: to the other it must not look like a close
            request.transport.abort()
    return below


def _socket_below(
    answer: Answer, above: ClientWebSocketResponse[bool], *, compress: bool
) -> web.WebSocketResponse[bool]:
    below: web.WebSocketResponse[bool] = web.WebSocketResponse(
        protocols=[above.protocol] if above.protocol else [],
        compress=compress,
        autoclose=False,
        autoping=False,
        max_msg_size=0,
        decode_text=False,
    )
    for name, value in headers_down(answer.headers).items():
        if not name.lower().startswith("sec-websocket-"):
            below.headers.add(name, value)
    return below


async def _pass_both_ways(above: _Socket, below: _Socket) -> _Close | None:
    """Forward messages until one side closes the WebSocket; return None if it vanished without closing."""
    directions = [asyncio.create_task(_pass_on(above, below)), asyncio.create_task(_pass_on(below, above))]
    try:
        ended, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for direction in directions:
            direction.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
    return ended.pop().result()


async def _pass_on(source: _Socket, sink: _Socket) -> _Close | None:
    while (message := await source.receive()).type in _PASSED_ON:
        try:
            await sink.send_frame(message.data, message.type)
        except ConnectionError:
            return None
    if message.type is not WSMsgType.CLOSE:
        return None
    return _Close(message.data or _NORMAL_CLOSE, (message.extra or "").encode())


@dataclass(frozen=True, slots=True)
class _Close:
    """The code and reason with which one side closed the WebSocket."""

    code: int
    reason: bytes
