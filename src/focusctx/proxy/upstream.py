"""Where requests go: only to the providers that were configured, never to a host a request names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..errors import ConfigError

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
_FORMS = f"an upstream is one of {', '.join(_KNOWN)}, or NAME=URL"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OURS = ("v1", "ui", "metrics", "healthz", "readyz")
"""What paths begin with that are no upstream's."""
_VERSION = re.compile(r"/v\d+\w*(/openai)?$")
"""How base URLs end: `/v1` mostly, `/v4` or `/v1beta/openai` elsewhere."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """One provider. `key` is sent instead of the caller's, where the proxy holds it."""

    name: str
    url: str
    key: str | None = None
    v1: str = "/v1"
    """What the provider has in the place of the agents' `/v1`."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in _OURS:
            raise ConfigError(
                f"{self.name!r} is no name for an upstream: letters, digits, '.', '_' and '-', not {', '.join(_OURS)}"
            )
        if not _is_address(self.url):
            raise ConfigError(f"upstream {self.name}: its URL is no http(s) address of the form https://HOST[:PORT]")

    def at(self, path: str) -> str:
        """The address there of a path as agents know it."""
        if self.v1 != "/v1" and path.startswith("/v1/"):
            path = self.v1 + path.removeprefix("/v1")
        return self.url + path

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @classmethod
    def named(cls, text: str, key: str | None = None) -> Upstream:
        """`openai`, or `NAME=URL`; a URL may end in `/v1`, as agents' base URLs do."""
        name, given, url = text.partition("=")
        url = (url if given else _KNOWN.get(name, "")).rstrip("/")
        if not url:
            raise ConfigError(f"{text!r} names no upstream: {_FORMS}")
        version = _VERSION.search(url)
        return cls(name, url[: version.start()], key, version[0]) if version else cls(name, url, key)


class Upstreams:
    """Chooses by path prefix (`/anthropic/v1/messages`), by header, or by what the path says; else the first."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        if not upstreams:
            raise ConfigError(f"no upstream: {_FORMS}")
        self._first = upstreams[0]
        self._named = {upstream.name: upstream for upstream in upstreams}
        if len(self._named) < len(upstreams):
            raise ConfigError("two upstreams have the same name")

    def choose(self, path: str, headers: Mapping[str, str]) -> tuple[Upstream, str] | None:
        """The upstream, and the path without its prefix; None when the header names one that nobody configured."""
        if name := headers.get(HEADER):
            return (self._named[name], path) if name in self._named else None
        first, slash, rest = path[1:].partition("/")
        if slash and first in self._named:
            return self._named[first], f"/{rest}"
        if "anthropic" in self._named and ("anthropic-version" in headers or path.startswith("/v1/messages")):
            return self._named["anthropic"], path
        return self._first, path


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  a wrong one shows here
    except ValueError:
        return False
    extra = parts.query or parts.fragment or parts.username or any(map(str.isspace, url))
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not extra
