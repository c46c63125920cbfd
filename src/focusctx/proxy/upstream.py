"""The providers that requests go to, and which headers are forwarded to them and back.

Requests go only to providers that were configured, never to a host that a request names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from multidict import CIMultiDict, CIMultiDictProxy, MultiMapping

from ..errors import ConfigError
from .access import BYPASS, COOKIE, CREDENTIALS, SESSION, TOKEN, Refused, is_credential, keys_in

HEADER = "x-focusctx-upstream"
_KNOWN = {
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
    "deepseek": "https://api.deepseek.com",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "groq": "https://api.groq.com/openai",
    "mistral": "https://api.mistral.ai",
    "openrouter": "https://openrouter.ai/api",
    "ollama": "http://127.0.0.1:11434",
    "vllm": "http://127.0.0.1:8000",
}
_OPENAI_ONLY = frozenset({"openai", "deepseek", "gemini", "groq", "mistral"})
"""Providers whose documentation has no `/v1/messages` at that address: they must not see an Anthropic key."""
GEMINI_PATH = re.compile(r"/models/(?P<model>[^/:]+):(?P<does>generateContent|streamGenerateContent|countTokens)$")
"""Requests of Gemini's own API with a history. The path names the model."""
_GEMINI_VERSION = re.compile(r"(?:/upload)?/v1(?:alpha|beta)\d*/(?!openai/)")
"""The beginning of the paths of Gemini's own API; few are only `/v1`."""
_OWN_VARIABLES = {"gemini": "GOOGLE_GEMINI_BASE_URL", "ollama": "OLLAMA_HOST"}
"""Variables for agents that speak a provider's own format."""
_FORMS = f"an upstream is one of {', '.join(_KNOWN)}, or NAME=URL"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OURS = ("v1", "ui", "metrics", "healthz", "readyz")
"""First segments of the proxy's own paths, which cannot name an upstream."""
_VERSION = re.compile(r"/v\d+\w*(/openai)?$")
"""The version at the end of a base URL: mostly `/v1`, elsewhere `/v4` or `/v1beta/openai`."""
_BETWEEN_NEIGHBOURS = (
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
    *("trailer", "transfer-encoding", "content-length", "upgrade", "host", "expect"),
    *(TOKEN, SESSION, HEADER, BYPASS),
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


@dataclass(frozen=True, slots=True)
class Upstream:
    """One provider. If `key` is set, it is sent instead of the caller's."""

    name: str
    url: str
    key: str | None = None
    v1: str = "/v1"
    """Path that the provider uses in place of the agents' `/v1`."""
    anthropic: bool = True
    """False only if the provider is known not to answer Anthropic requests."""
    gemini: bool = True
    """False only if the provider is known not to answer requests in Gemini's own format."""
    budget: int | None = None
    """Budget of conversations with it; None for the usual one."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in _OURS:
            raise ConfigError(
                f"invalid upstream name {self.name!r}: use letters, digits, '.', '_' and '-'; not {', '.join(_OURS)}"
            )
        if not _is_address(self.url):
            raise ConfigError(
                f"upstream {self.name}: its URL must have the form https://HOST[:PORT] or http://HOST[:PORT]"
            )
        if self.key is not None and not (self.key.isascii() and self.key.isprintable()):
            raise ConfigError(f"upstream {self.name}: its key has a line end, or a character that no header can hold")
        if self.budget is not None and self.budget < 0:
            raise ConfigError(f"upstream {self.name}: its budget must be 0 or more, got {self.budget}")

    def at(self, path: str) -> str:
        """Return the provider's URL for a path as agents know it."""
        if self.v1 != "/v1" and path.startswith("/v1/") and not GEMINI_PATH.search(path.partition("?")[0]):
            path = self.v1 + path.removeprefix("/v1")
        return self.url + path

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @classmethod
    def named(cls, text: str, key: str | None = None) -> Upstream:
        """Parse `openai`, or `NAME=URL`; a URL may end in `/v1`, as agents' base URLs do."""
        name, given, url = text.partition("=")
        url = (url if given else _KNOWN.get(name, "")).rstrip("/")
        if not url:
            raise ConfigError(f"unknown upstream {text!r}: {_FORMS}")
        anthropic = bool(given) or name not in _OPENAI_ONLY
        gemini = bool(given) or name == "gemini"
        version = _VERSION.search(url)
        if version is None:
            return cls(name, url, key, anthropic=anthropic, gemini=gemini)
        return cls(name, url[: version.start()], key, version[0], anthropic, gemini)


class Upstreams:
    """Chooses by header, by path prefix (`/anthropic/v1/messages`), or by the kind of request; else the first."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        if not upstreams:
            raise ConfigError(f"at least one upstream is needed: {_FORMS}")
        self._first = upstreams[0]
        self._named = {upstream.name: upstream for upstream in upstreams}
        if len(self._named) < len(upstreams):
            raise ConfigError("two upstreams have the same name: rename one")
        able = (upstream for upstream in upstreams if upstream.anthropic)
        self._for_anthropic = self._named.get("anthropic") or next(able, None)
        self._for_gemini = self._named.get("gemini") or next((one for one in upstreams if one.gemini), None)

    def choose(self, path: str, headers: Mapping[str, str]) -> tuple[Upstream, str]:
        """Return the upstream and the path without its prefix. Raises `Refused` if there is no upstream."""
        if name := headers.get(HEADER):
            if name not in self._named:
                raise Refused(404, f"unknown upstream in the header {HEADER}: add it with --upstream")
            return _asked_for(self._named[name], path, headers)
        first, slash, rest = path[1:].partition("/")
        if slash and first in self._named:
            return _asked_for(self._named[first], f"/{rest}", headers)
        if _is_gemini(path, headers):
            if self._for_gemini is None:
                raise Refused(404, "no upstream for Gemini requests: add --upstream gemini")
            return self._for_gemini, path
        if path.startswith("/api/") and "ollama" in self._named:
            return self._named["ollama"], path
        if self._for_anthropic is self._first or not _is_anthropic(path, headers):
            return self._first, path
        if self._for_anthropic is not None:
            return self._for_anthropic, path
        if _is_ours(path):
            raise Refused(404, "no upstream for Anthropic requests: add --upstream anthropic")
        return self._first, path


def base_urls(upstreams: Sequence[Upstream]) -> dict[str, str]:
    """Return the variables to set for agents, each with the path to append to the proxy's address.

    A variable is left out if no upstream may see the key that agents send with it.
    """
    found = {}
    if other := next((upstream for upstream in upstreams if upstream.url != _KNOWN["anthropic"]), None):
        found["OPENAI_BASE_URL"] = "/v1" if other is upstreams[0] else f"/{other.name}/v1"
    if any(upstream.anthropic for upstream in upstreams):
        found["ANTHROPIC_BASE_URL"] = ""
    names = {upstream.name for upstream in upstreams}
    return found | {variable: "" for name, variable in _OWN_VARIABLES.items() if name in names}


def _asked_for(upstream: Upstream, path: str, headers: Mapping[str, str]) -> tuple[Upstream, str]:
    """Return the upstream that a request names; refuse it if the upstream is known not to understand the request."""
    if not upstream.anthropic and _is_ours(path) and _is_anthropic(path, headers):
        raise Refused(404, f"{upstream.name} does not answer Anthropic requests: send them to another upstream")
    if not upstream.gemini and _is_gemini(path, headers):
        raise Refused(404, f"{upstream.name} does not answer Gemini requests: send them to another upstream")
    return upstream, path


def _is_anthropic(path: str, headers: Mapping[str, str]) -> bool:
    return path.startswith("/v1/messages") or "anthropic-version" in headers


def _is_gemini(path: str, headers: Mapping[str, str]) -> bool:
    """True for Gemini's own API, which is asked with a Google key: also lists of models, uploads and so on."""
    place = path.partition("?")[0]
    own = _GEMINI_VERSION.match(place) or GEMINI_PATH.search(place)
    return own is not None or "x-goog-api-key" in headers


def _is_ours(path: str) -> bool:
    """True if agents use this path; False for a provider's own, such as DeepSeek's `/anthropic/v1/messages`."""
    return path.startswith("/v1/")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  raises if it is wrong
    except ValueError:
        return False
    extra = parts.query or parts.fragment or parts.username or any(map(str.isspace, url))
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not extra


def path_up(path: str, upstream: Upstream) -> str:
    """Return the path and query to forward. If the proxy holds the key, they lose the caller's own."""
    place, asked, query = path.partition("?")
    if not upstream.key or not asked or not keys_in(query):
        return path
    others = [field for field in query.split("&") if not is_credential(field)]
    return f"{place}?{'&'.join(others)}" if others else place


def headers_up(headers: CIMultiDictProxy[str], upstream: Upstream, path: str) -> CIMultiDict[str]:
    """Return the caller's headers without those meant only for the proxy, and with the proxy's key if it holds one."""
    kept = _end_to_end(headers)
    if "cookie" in kept:
        _drop_own_cookie(kept)
    if upstream.key:
        is_google = GEMINI_PATH.search(path.partition("?")[0]) or keys_in(path.partition("?")[2])
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


def listed(headers: MultiMapping[str], name: str) -> list[str]:
    """Return the elements of a header that is a comma-separated list."""
    elements = (element.strip() for value in headers.getall(name, ()) for element in value.split(","))
    return [element for element in elements if element]


def _end_to_end(headers: MultiMapping[str]) -> CIMultiDict[str]:
    kept = CIMultiDict(headers)
    for name in (*_BETWEEN_NEIGHBOURS, *listed(headers, "connection")):
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
