"""Where requests go: only to the providers that were configured, never to a host a request names."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Upstream:
    """One provider. `key` is sent instead of the caller's, where the proxy holds it."""

    name: str
    url: str
    key: str | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"upstream {self.name}: {self.url!r} is no http(s) address")
        if "/" in self.name or not self.name:
            raise ConfigError(f"{self.name!r} is no name for an upstream: it is a part of a path")

    @classmethod
    def named(cls, text: str, key: str | None = None) -> Upstream:
        """`openai`, or `NAME=URL`; a URL may end in `/v1`, as agents' base URLs do."""
        name, _, url = text.partition("=")
        url = url or _KNOWN.get(name, "")
        if not url:
            raise ConfigError(f"{text!r} names no upstream: {_FORMS}")
        return cls(name, url.rstrip("/").removesuffix("/v1"), key)


class Upstreams:
    """Chooses by path prefix (`/anthropic/v1/messages`), by header, or by what the path says; else the first."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        if not upstreams:
            raise ConfigError(f"no upstream: {_FORMS}")
        self._first = upstreams[0]
        self._named = {upstream.name: upstream for upstream in upstreams}
        if len(self._named) < len(upstreams):
            raise ConfigError("two upstreams have the same name")

    def __iter__(self) -> object:
        return iter(self._named.values())

    def choose(self, path: str, headers: Mapping[str, str]) -> tuple[Upstream, str] | None:
        """The upstream and the path there; None when the header names one that nobody configured."""
        if name := headers.get(HEADER):
            return (self._named[name], path) if name in self._named else None
        first, slash, rest = path[1:].partition("/")
        if slash and first in self._named:
            return self._named[first], f"/{rest}"
        if len(self._named) > 1 and "/v1/messages" in path and "anthropic" in self._named:
            return self._named["anthropic"], path
        return self._first, path
