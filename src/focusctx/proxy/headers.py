"""Headers: who is calling, what a request asks for, and which headers are forwarded with it and its answer.

Only a hash of the caller's key is ever kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from urllib.parse import unquote_plus

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy, MultiMapping

from .access import COOKIE
from .access import HEADER as TOKEN
from .upstream import GEMINI_PATH, Upstream
from .upstream import HEADER as UPSTREAM

SESSION = "x-focusctx-session"
BYPASS = "x-focusctx-bypass"
_SESSIONS = (SESSION, "x-claude-code-session-id")
"""Headers that name the run of a request: ours first, then those of agents."""
CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
"""Headers that tell a provider who is calling."""
_QUERY_CREDENTIALS = frozenset({"key", "$key", "access_token", "oauth_token"})
"""Fields of a query in which Google's APIs take a credential, too."""
_BETWEEN_NEIGHBOURS = (
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
    *("trailer", "transfer-encoding", "content-length", "upgrade", "host", "expect"),
    *(TOKEN, SESSION, UPSTREAM, BYPASS),
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


def tenant_of(headers: Mapping[str, str], upstream: str, caller: str = "", query: str = "") -> str:
    """Return the scope of a caller's decisions, which callers with another key or name cannot see."""
    named = (caller,) if caller else ()
    return _hash(upstream, *_credentials(headers, query), *named).hex()


def caller_of(headers: Mapping[str, str], query: str = "") -> bytes:
    """Return a hash of the credentials in a request's headers and query."""
    return _hash(*_credentials(headers, query))


def _credentials(headers: Mapping[str, str], query: str) -> list[str]:
    return [*(headers.get(name, "") for name in CREDENTIALS), *_keys_in(query)]


def _keys_in(query: str) -> list[str]:
    return [field for field in query.split("&") if _is_credential(field)] if query else []


def _is_credential(field: str) -> bool:
    return unquote_plus(field.partition("=")[0]) in _QUERY_CREDENTIALS


def _hash(*texts: str) -> bytes:
    return blake2b("\0".join(texts).encode("utf-8", "surrogateescape"), digest_size=16).digest()


def run_of(headers: Mapping[str, str]) -> str | None:
    """Return the caller's name for the run, if a header gives one. Runs with other names share no conversation."""
    return next((headers[name] for name in _SESSIONS if headers.get(name)), None)


def asks_for_bypass(headers: Mapping[str, str]) -> bool:
    """True if the caller wants its request forwarded as it is."""
    return headers.get(BYPASS, "").strip().lower() not in ("", "0", "false", "no")


def is_websocket(request: web.BaseRequest) -> bool:
    """True if a request asks for a WebSocket."""
    return (
        request.method == "GET"
        and "websocket" in _tokens(request, "upgrade")
        and "upgrade" in _tokens(request, "connection")
    )


def split_list(value: str) -> list[str]:
    """Return the elements of a header that is a comma-separated list."""
    return [name.strip() for name in value.split(",") if name.strip()]


def _tokens(request: web.BaseRequest, header: str) -> set[str]:
    return {name.lower() for value in request.headers.getall(header, ()) for name in split_list(value)}


def path_up(path: str, upstream: Upstream) -> str:
    """Return the path and query to forward. If the proxy holds the key, they lose the caller's own."""
    place, asked, query = path.partition("?")
    if not upstream.key or not asked or not _keys_in(query):
        return path
    others = [field for field in query.split("&") if not _is_credential(field)]
    return f"{place}?{'&'.join(others)}" if others else place


def headers_up(headers: CIMultiDictProxy[str], upstream: Upstream, path: str) -> CIMultiDict[str]:
    """Return the caller's headers without those meant only for the proxy, and with the proxy's key if it holds one."""
    kept = _end_to_end(headers)
    if "cookie" in kept:
        _drop_own_cookie(kept)
    if upstream.key:
        is_google = GEMINI_PATH.search(path.partition("?")[0]) or _keys_in(path.partition("?")[2])
        _put_key(kept, upstream.key, "x-goog-api-key" if is_google else "authorization")
    return kept


def headers_down(headers: MultiMapping[str]) -> CIMultiDict[str]:
    """Return the provider's headers, without those that let web pages read the answer. An answer that a browser would
    show as a page is sandboxed, since it would have the same origin as the dashboard."""
    kept = _end_to_end(headers)
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


def _put_key(headers: CIMultiDict[str], key: str, usual: str) -> None:
    """Replace the caller's key with the proxy's."""
    places = [name for name in CREDENTIALS if name in headers]
    for name in places or ["x-api-key" if "anthropic-version" in headers else usual]:
        headers.popall(name, None)
        headers[name] = f"Bearer {key}" if name == "authorization" else key


def _drop_own_cookie(headers: CIMultiDict[str]) -> None:
    crumbs = [crumb.strip() for cookies in headers.popall("cookie") for crumb in cookies.split(";")]
    if kept := [crumb for crumb in crumbs if crumb.partition("=")[0] != COOKIE]:
        headers["cookie"] = "; ".join(kept)
