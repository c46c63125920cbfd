"""Who may come in: everyone on this machine, or, with a token, whoever shows it. Never a page in a browser."""

from __future__ import annotations

import hmac

from aiohttp import web

from .settings import is_loopback
from .upstream import Upstream

HEADER = "x-focusctx-token"
COOKIE = "focusctx_token"


class Access:
    def __init__(self, token: str | None) -> None:
        self._token = token

    def refuses_call(self, request: web.BaseRequest, upstream: Upstream | None = None) -> str | None:
        """Why this caller may not have a request forwarded; None if it may.

        Where the proxy holds the provider's key, the token may come in the place of one.
        """
        if self._from_elsewhere(request):
            return "requests from web pages are not accepted"
        if self._token is None:
            holds_key = upstream is not None and upstream.key is not None
            return _not_here(request) if holds_key or "origin" in request.headers else None
        shown = [request.headers.get(HEADER, "")]
        if upstream is None or upstream.key:
            shown += [_bearer(request), request.headers.get("x-api-key", "")]
        return None if any(map(self.opens, shown)) else f"the access token is missing or wrong (header {HEADER})"

    def refuses_admin(self, request: web.BaseRequest) -> str | None:
        """The same for the dashboard, its API and the metrics."""
        if self._token is None:
            if why := _not_here(request):
                return why
        elif self.opens(request.cookies.get(COOKIE, "")):
            return "requests from web pages are not accepted" if self._from_elsewhere(request) else None
        return self.refuses_call(request)

    def opens(self, shown: str) -> bool:
        return self._token is not None and hmac.compare_digest(_bytes(shown), _bytes(self._token))

    def _from_elsewhere(self, request: web.BaseRequest) -> bool:
        """Whether a browser sends this for a page that is not the dashboard."""
        origin = request.headers.get("origin")
        if origin is not None:
            return origin.partition("://")[2] != request.host
        return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _bearer(request: web.BaseRequest) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token if kind.lower() == "bearer" else ""


def _not_here(request: web.BaseRequest) -> str | None:
    """Why not, for a request that names another host: a page elsewhere could have its name point to this machine, and
    read what is served here, or use a key that is held here."""
    named = request.headers.get("host", "")
    host = named.partition("]")[0].removeprefix("[") if named.startswith("[") else named.partition(":")[0]
    return None if is_loopback(host) else f"served to this machine only, not as {host!r}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
