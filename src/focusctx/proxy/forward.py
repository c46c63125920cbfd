"""Passing on: what comes from one side goes to the other, byte for byte and at once."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from .upstream import Upstream

_log = logging.getLogger("focusctx.proxy")

_HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
        *("trailer", "transfer-encoding", "upgrade", "host", "content-length", "expect"),
    )
)
_KEYS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_ALL_AT_ONCE = 1024 * 1024
"""Bytes: an answer of a known length up to this is one write, not a stream."""


def client() -> aiohttp.ClientSession:
    """Connections to the providers. A stream may be silent for as long as its agent cares to wait."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
        auto_decompress=False,
        skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=256 * 1024,
        max_line_size=64 * 1024,
        max_field_size=64 * 1024,
    )


def headers_up(headers: Mapping[str, str], upstream: Upstream) -> CIMultiDict[str]:
    """The caller's headers, without those that concern the caller and the proxy only."""
    kept = _end_to_end(headers)
    if upstream.key:
        for name in _KEYS:
            kept.popall(name, None)
        kept["authorization"] = f"Bearer {upstream.key}"
        if upstream.name == "anthropic":
            kept["x-api-key"] = upstream.key
    return kept


def _end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    named = headers.get("connection", "").lower().replace(" ", "").split(",")
    return CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if (low := name.lower()) not in _HOP_BY_HOP and low not in named and not low.startswith("x-focusctx-")
    )


def headers_down(answer: aiohttp.ClientResponse) -> CIMultiDict[str]:
    """The provider's headers; whether a page in a browser may read the answer is not for the provider to say."""
    kept = _end_to_end(answer.headers)
    for name in [name for name in kept if name.lower().startswith("access-control-")]:
        kept.popall(name, None)
    return kept


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request on its way to a provider, all but its body."""

    upstream: Upstream
    method: str
    path: str
    headers: CIMultiDict[str]

    @property
    def url(self) -> URL:
        return URL(self.upstream.url + self.path, encoded=True)


@asynccontextmanager
async def ask(
    http: aiohttp.ClientSession, outgoing: Outgoing, body: bytes | AsyncIterator[bytes] | None
) -> AsyncIterator[aiohttp.ClientResponse]:
    """One request to a provider. One that a kept-alive connection lost is sent once more: direct, it had gone well."""

    async def send() -> aiohttp.ClientResponse:
        return await http.request(
            outgoing.method, outgoing.url, headers=outgoing.headers, data=body, allow_redirects=False
        )

    try:
        answer = await send()
    except (aiohttp.ServerDisconnectedError, ConnectionResetError):
        if body is not None and not isinstance(body, bytes):
            raise
        answer = await send()
    try:
        yield answer
    finally:
        answer.close()  # lets go of the connection: back to the pool if all was read, else it is cut


async def pass_down(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """The provider's answer, as it comes."""
    headers = headers_down(answer)
    length = answer.content_length
    if length is not None and length <= _ALL_AT_ONCE and request.method != "HEAD":
        return web.Response(status=answer.status, reason=answer.reason, headers=headers, body=await answer.read())
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
    if length is not None:
        response.content_length = length
    await stream_down(request, response, answer.content.iter_any())
    return response


async def stream_down(request: web.BaseRequest, response: web.StreamResponse, chunks: AsyncIterator[bytes]) -> None:
    """A stream, chunk by chunk. One that breaks off above breaks off below: it must not look finished."""
    await response.prepare(request)
    try:
        async for chunk in chunks:
            await response.write(chunk)
        await response.write_eof()
    except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError) as error:
        _log.warning("stream broken off: %s", error)
        if request.transport is not None:
            request.transport.close()


def refusal(status: int, why: str, headers: Iterable[tuple[str, str]] = ()) -> web.Response:
    """What the proxy itself has to say, in the form all providers use for errors."""
    text = json.dumps({"type": "error", "error": {"type": "focusctx_error", "message": f"focusctx: {why}"}})
    return web.Response(
        status=status, text=text, content_type="application/json", headers=[*headers, ("x-focusctx-error", "1")]
    )
