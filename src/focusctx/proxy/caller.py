"""Identify the caller and the run of a request. Only a hash of the caller's key is ever kept."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

SESSION = "x-focusctx-session"
_SESSIONS = (SESSION, "x-claude-code-session-id")
"""Headers that name the run of a request: ours first, then those of agents."""
CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
"""Headers that tell a provider who is calling."""


def tenant_of(headers: Mapping[str, str], upstream: str) -> str:
    """Return the scope of a caller's decisions, which callers with another key cannot see."""
    whose = [upstream, *(headers.get(name, "") for name in CREDENTIALS)]
    return blake2b("\0".join(whose).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def run_of(headers: Mapping[str, str]) -> str | None:
    """Return the caller's name for the run, if a header gives one. Runs with other names share no conversation."""
    return next((headers[name] for name in _SESSIONS if headers.get(name)), None)
