"""Select the headers to forward with a request and its answer: those meant for the two ends."""

from __future__ import annotations

import re

from multidict import CIMultiDict, CIMultiDictProxy, MultiMapping

from .access import COOKIE
from .access import HEADER as TOKEN
from .answer import Answer
from .caller import CREDENTIALS, SESSION
from .upstream import HEADER as UPSTREAM
from .upstream import Upstream

_BETWEEN_NEIGHBOURS = (
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
    *("trailer", "transfer-encoding", "content-length", "upgrade", "host", "expect"),
    *(TOKEN, SESSION, UPSTREAM),
)
"""Headers about a single connection or the body's length, which is computed again, and headers that callers address to
the proxy."""
_FOR_PAGES = tuple(
    f"access-control-{name}"
    for name in (
        *("allow-origin", "allow-credentials", "allow-headers", "allow-methods", "allow-private-network"),
        *("expose-headers", "max-age"),
    )
)
_HARMLESS = re.compile(
    r"(?:application/(?:[\w.-]+\+)?json|application/octet-stream|text/event-stream|text/plain"
    r"|audio/[\w.+-]+|video/[\w.+-]+|image/(?!svg)[\w.+-]+)\s*(?:;[^,]*)?",
    re.IGNORECASE,
)
"""Content types that a browser never runs as a page. Without a type it guesses, and of several it takes the last."""


def headers_up(headers: CIMultiDictProxy[str], upstream: Upstream) -> CIMultiDict[str]:
    """Return the caller's headers without those meant only for the proxy, and with the proxy's key if it holds one."""
    kept = _end_to_end(headers)
    if "cookie" in kept:
        _drop_own_cookie(kept)
    if upstream.key:
        _put_key(kept, upstream.key)
    return kept


def headers_down(answer: Answer) -> CIMultiDict[str]:
    """Return the provider's headers, without those that let web pages read the answer. An answer that a browser would
    show as a page is sandboxed, since it would have the same origin as the dashboard."""
    kept = _end_to_end(answer.headers)
    for name in _FOR_PAGES:
        kept.popall(name, None)
    if not _HARMLESS.fullmatch(", ".join(kept.getall("content-type", ()))):
        kept.add("content-security-policy", "sandbox")
    return kept


def _end_to_end(headers: MultiMapping[str]) -> CIMultiDict[str]:
    kept = CIMultiDict(headers)
    named = [name.strip() for value in headers.getall("connection", ()) for name in value.split(",")]
    for name in (*_BETWEEN_NEIGHBOURS, *named):
        kept.popall(name, None)
    if not "".join(kept.values()).isascii():
        return CIMultiDict((name, _spelled(value)) for name, value in kept.items())
    return kept


def _spelled(value: str) -> str:
    """Spell non-ASCII characters in UTF-8, even those that came as single bytes: aiohttp would leave them out."""
    raw = value.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _put_key(headers: CIMultiDict[str], key: str) -> None:
    """Replace the caller's key with the proxy's."""
    places = [name for name in CREDENTIALS if name in headers]
    for name in places or ["x-api-key" if "anthropic-version" in headers else "authorization"]:
        headers.popall(name, None)
        headers[name] = f"Bearer {key}" if name == "authorization" else key


def _drop_own_cookie(headers: CIMultiDict[str]) -> None:
    crumbs = [crumb.strip() for cookies in headers.popall("cookie") for crumb in cookies.split(";")]
    if kept := [crumb for crumb in crumbs if crumb.partition("=")[0] != COOKIE]:
        headers["cookie"] = "; ".join(kept)
