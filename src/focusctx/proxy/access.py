"""Who is calling, and may they? Two roles: callers, whose requests are forwarded, and users of the dashboard.

Each role has its own token, which does not give access to the other. Without tokens, everybody on this machine has
both roles. Web pages of other sites have neither. Of a caller's key for the provider, only a hash is ever kept.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from urllib.parse import unquote_plus

from aiohttp import web

from ..egress import is_loopback
from ..errors import ConfigError

TOKEN = "x-focusctx-token"
SESSION = "x-focusctx-session"
BYPASS = "x-focusctx-bypass"
COOKIE = "focusctx_login"
CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
"""Headers that tell a provider who is calling."""
_QUERY_CREDENTIALS = frozenset({"key", "$key", "access_token", "oauth_token"})
"""Query fields in which Google's APIs also accept a credential."""
_RUNS = (SESSION, "x-claude-code-session-id")
"""Headers that name the run of a request: ours first, then those of agents."""
SHORTEST_TOKEN = 16
"""Characters that a token must have: shorter ones could be guessed."""
_CALLER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

FOREIGN = "requests from web pages are not accepted"
_NO_ADMIN_TOKEN = (
    "closed, because callers need an access token and no admin token is set: "
    "set one (FOCUSCTX_ADMIN_TOKEN) and start the proxy again"
)
_LOGIN = 12 * 3600.0
"""Seconds that a login lasts."""
_LOGINS = 100
"""Most logins at the same time; one more ends the oldest."""
_FREE = 3
"""Wrong tokens that an address may send before its answers are delayed: people mistype."""
_FIRST, _LONGEST = 0.25, 5.0
"""Seconds of delay: the first, which doubles with every further wrong token, and the longest."""
_FORGOTTEN = 600.0
"""Seconds without a wrong token after which the count of an address starts again."""
_ADDRESSES = 1000
"""Most addresses that are remembered."""
_WAITING_HERE, _WAITING = 8, 200
"""Most delayed answers at the same time: to one address, and to all."""


class Refused(Exception):
    """The proxy does not serve a request; the status and the reason are its answer."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status

    def response(self) -> web.Response:
        return refusal(self.status, str(self))


def refusal(status: int, why: str, headers: Iterable[tuple[str, str]] = ()) -> web.Response:
    """Build an error response of the proxy, in the form that all providers use for errors."""
    text = json.dumps({"type": "error", "error": {"type": "focusctx_error", "message": f"focusctx: {why}"}})
    return web.Response(
        status=status, text=text, content_type="application/json", headers=[*headers, ("x-focusctx-error", "1")]
    )


@dataclass(frozen=True, slots=True)
class NamedCaller:
    """A caller with its own token and name; its conversations are apart from those of others.

    The name is shown on the dashboard and in the metrics, the token nowhere.
    """

    name: str
    token: str = field(repr=False)
    budget: int | None = None
    """Budget of this caller's conversations; None for the usual one."""

    def __post_init__(self) -> None:
        if not _CALLER.fullmatch(self.name):
            raise ConfigError(f"invalid name of a caller {self.name!r}: use up to 64 letters, digits, '.', '_' and '-'")
        if len(self.token) < SHORTEST_TOKEN:
            raise ConfigError(f"the token of {self.name} is shorter than {SHORTEST_TOKEN} characters: use a longer one")
        if self.budget is not None and self.budget < 0:
            raise ConfigError(f"the budget of {self.name} must be 0 or more, got {self.budget}")


class Access:
    """Accepts or refuses requests by their token, login, origin and host."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """Callers' names by their tokens; the token that all share has none."""
        self._admin_token: str | None = None
        self._guesses = Guesses()
        self._logins = Logins()

    def use(self, token: str | None, admin_token: str | None, callers: Sequence[NamedCaller]) -> None:
        """Accept these tokens from now on. Another admin token ends all logins."""
        self._names = {caller.token: caller.name for caller in callers}
        if token is not None:
            self._names[token] = ""
        if admin_token != self._admin_token:
            self._logins = Logins()
        self._admin_token = admin_token

    async def admit(self, request: web.BaseRequest, *, uses_own_key: bool) -> str:
        """Return the caller's name, empty if it has none, or raise `Refused` if its request may not be forwarded.

        If the proxy's own key for the provider is used, the caller may send the token in place of a key.
        """
        refuse_foreign(request)
        if not self._names:
            if uses_own_key or "origin" in request.headers:
                _refuse_elsewhere(request)
            return ""
        shown = [request.headers.get(TOKEN, "")]
        if uses_own_key:
            shown = [*_shown(request), request.query.get("key", "")]
        names = [name for token, name in self._names.items() if _is_shown(token, shown)]
        if not names:
            raise await self._wrong_token(request, shown, "access")
        return names[0]

    async def admit_admin(self, request: web.BaseRequest) -> None:
        """Raise `Refused` if this request may not see the dashboard, its API or the metrics."""
        refuse_foreign(request)
        if self._admin_token is not None:
            if not self._logins.has(request.cookies.get(COOKIE, "")):
                await self._check_admin_token(request, _shown(request), self._admin_token)
        elif self._names:
            raise Refused(403, _NO_ADMIN_TOKEN)
        else:
            _refuse_elsewhere(request)

    async def log_in(self, request: web.BaseRequest, shown: str) -> str:
        """Return a cookie value that opens the dashboard, or raise `Refused` if `shown` is not the admin token."""
        assert self._admin_token is not None, "without one there is nothing to log in to"
        await self._check_admin_token(request, [shown, shown.strip()], self._admin_token)
        return self._logins.begin()

    def log_out(self, request: web.BaseRequest) -> None:
        self._logins.end(request.cookies.get(COOKIE, ""))

    async def _check_admin_token(self, request: web.BaseRequest, shown: list[str], token: str) -> None:
        if not _is_shown(token, shown):
            raise await self._wrong_token(request, shown, "admin")

    async def _wrong_token(self, request: web.BaseRequest, shown: list[str], kind: str) -> Refused:
        if any(shown) and not await self._guesses.wait(request.remote):
            return Refused(429, "too many wrong tokens from this address: wait before you try another")
        return Refused(403, f"the {kind} token is missing or wrong (header {TOKEN})")


class Logins:
    """Logins to the dashboard: random values, so that a stolen cookie is not the token and expires with the process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends: OrderedDict[str, float] = OrderedDict()
        """Time at which each login ends, oldest first."""

    def begin(self) -> str:
        login = secrets.token_urlsafe(32)
        self._ends[login] = self._clock() + _LOGIN
        if len(self._ends) > _LOGINS:
            self._ends.popitem(last=False)
        return login

    def has(self, login: str) -> bool:
        return self._ends.get(login, 0.0) > self._clock()

    def end(self, login: str) -> None:
        self._ends.pop(login, None)


@dataclass(slots=True)
class _Address:
    wrong: int = 0
    last: float = 0.0
    waiting: int = 0


class Guesses:
    """Delays the answers to wrong tokens, longer with each one from the same address.

    The right token is never delayed: an attacker who shares an address with a caller, as everybody behind one reverse
    proxy does, must not be able to lock the caller out. So answers are delayed, not checks. Tokens of 16 or more
    characters are safe from guessing because of their length.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._waiting = 0

    async def wait(self, remote: str | None) -> bool:
        """Count a wrong token and wait before it is answered. False if too many wait already: then refuse at once."""
        address = self._note(_network(remote or ""))
        if address.wrong <= _FREE:
            return True
        if address.waiting >= _WAITING_HERE or self._waiting >= _WAITING:
            return False
        address.waiting += 1
        self._waiting += 1
        try:
            await asyncio.sleep(min(_FIRST * 2 ** min(address.wrong - _FREE - 1, 10), _LONGEST))
        finally:
            address.waiting -= 1
            self._waiting -= 1
        return True

    def _note(self, name: str) -> _Address:
        now = self._clock()
        address = self._addresses.setdefault(name, _Address())
        self._addresses.move_to_end(name)
        if now - address.last > _FORGOTTEN:
            address.wrong = 0
        address.wrong += 1
        address.last = now
        if len(self._addresses) > _ADDRESSES:
            self._addresses.popitem(last=False)
        return address


def _network(remote: str) -> str:
    """Return the part of an address that an attacker cannot vary at will: for IPv6, the first half."""
    try:
        address = ipaddress.ip_address(remote.partition("%")[0])
    except ValueError:
        return remote
    return remote if address.version == 4 else str(ipaddress.ip_network((int(address), 64), strict=False))


def refuse_foreign(request: web.BaseRequest) -> None:
    if is_foreign(request):
        raise Refused(403, FOREIGN)


def is_foreign(request: web.BaseRequest) -> bool:
    """True if a browser sent this request for a page other than the dashboard."""
    origin = request.headers.get("origin")
    if origin is not None:
        return origin.partition("://")[2] != request.host
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _shown(request: web.BaseRequest) -> list[str]:
    kind, _, bearer = request.headers.get("authorization", "").partition(" ")
    headers = request.headers
    others = [headers.get(name, "") for name in ("x-api-key", "x-goog-api-key")]
    return [headers.get(TOKEN, ""), bearer if kind.lower() == "bearer" else "", *others]


_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]*))(?::[0-9]*)?")


def _refuse_elsewhere(request: web.BaseRequest) -> None:
    """Refuse a request whose Host header does not name this machine.

    A foreign site could point its name at this address, then read what is served here or use a key that is held here.
    """
    named = request.headers.get("host", "")
    parts = _HOST.fullmatch(named)
    host = (parts["six"] or parts["name"]) if parts else ""
    if not is_loopback(host.lower()):
        raise Refused(403, f"served to this machine only, not as {named!r}")


def _is_shown(token: str, shown: Sequence[str]) -> bool:
    """Compare in constant time, so that the time it takes reveals nothing about the token."""
    return any(hmac.compare_digest(_bytes(each), _bytes(token)) for each in shown)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def tenant_of(headers: Mapping[str, str], upstream: str, caller: str = "", query: str = "") -> str:
    """Return the scope of a caller's decisions, which callers with another key or name cannot see."""
    named = (caller,) if caller else ()
    return _hash(upstream, *_credentials(headers, query), *named).hex()


def caller_of(headers: Mapping[str, str], query: str = "") -> bytes:
    """Return a hash of the credentials in a request's headers and query."""
    return _hash(*_credentials(headers, query))


def _credentials(headers: Mapping[str, str], query: str) -> list[str]:
    return [*(headers.get(name, "") for name in CREDENTIALS), *keys_in(query)]


def keys_in(query: str) -> list[str]:
    return [field for field in query.split("&") if is_credential(field)] if query else []


def is_credential(field: str) -> bool:
    return unquote_plus(field.partition("=")[0]) in _QUERY_CREDENTIALS


def _hash(*texts: str) -> bytes:
    return blake2b("\0".join(texts).encode("utf-8", "surrogateescape"), digest_size=16).digest()


def run_of(headers: Mapping[str, str]) -> str | None:
    """Return the caller's name for the run, if a header gives one. Runs with other names share no conversation."""
    return next((headers[name] for name in _RUNS if headers.get(name)), None)


def asks_for_bypass(headers: Mapping[str, str]) -> bool:
    """True if the caller wants its request forwarded as it is."""
    return headers.get(BYPASS, "").strip().lower() not in ("", "0", "false", "no")
