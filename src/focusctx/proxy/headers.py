"""What a request and its answer keep of their headers on the way: all that concerns the two ends."""

from __future__ import annotations

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy

from .access import COOKIE
from .upstream import Upstream

_HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
        *("trailer", "transfer-encoding", "upgrade", "host", "expect"),
    )
)
_KEYS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


def headers_up(headers: CIMultiDictProxy[str], upstream: Upstream) -> CIMultiDict[str]:
    """The caller's headers, without those that concern the caller and the proxy only."""
    kept = _end_to_end(headers)
    if "cookie" in kept:
        _drop_own_cookie(kept)
    if upstream.key:
        _put_key(kept, upstream.key)
    return kept


def headers_down(answer: aiohttp.ClientResponse) -> CIMultiDict[str]:
    """The provider's headers; whether a page in a browser may read the answer is not for the provider to say."""
    kept = _end_to_end(answer.headers)
    kept.popall("content-length", None)
    for name in [name for name in kept if name.lower().startswith("access-control-")]:
        kept.popall(name, None)
    return kept


def _end_to_end(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    named = ",".join(headers.getall("connection", ())).lower().replace(" ", "").split(",")
    return CIMultiDict(
        (name, value if value.isascii() else _spelled(value))
        for name, value in headers.items()
        if (low := name.lower()) not in _HOP_BY_HOP and low not in named and not low.startswith("x-focusctx-")
    )


def _spelled(value: str) -> str:
    """Other characters go on in UTF-8, also those that came as single bytes: aiohttp would leave them out."""
    raw = value.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _put_key(headers: CIMultiDict[str], key: str) -> None:
    """The proxy's key in the place of the caller's."""
    places = [name for name in _KEYS if name in headers]
    for name in places or ["x-api-key" if "anthropic-version" in headers else "authorization"]:
        headers.popall(name, None)
        headers[name] = f"Bearer {key}" if name == "authorization" else key


def _drop_own_cookie(headers: CIMultiDict[str]) -> None:
    crumbs = [crumb.strip() for cookies in headers.popall("cookie") for crumb in cookies.split(";")]
    if kept := [crumb for crumb in crumbs if crumb.partition("=")[0] != COOKIE]:
        headers["cookie"] = "; ".join(kept)
