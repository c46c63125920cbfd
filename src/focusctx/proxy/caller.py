"""Who calls, and in which run. Only a hash of the caller's key is ever held."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

SESSION = "x-focusctx-session"
_SESSIONS = (SESSION, "x-claude-code-session-id")
"""Headers that name the run a request belongs to; agents' own come after ours."""
_KEYS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


def tenant_of(headers: Mapping[str, str], upstream: str) -> str:
    """The scope of a caller's decisions: nobody with another key sees them."""
    whose = [upstream, *(headers.get(name, "") for name in _KEYS)]
    return blake2b("\0".join(whose).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def run_of(headers: Mapping[str, str]) -> str | None:
    """The caller's own name for the run, if a header gives one: what runs of other names do not share."""
    return next((headers[name] for name in _SESSIONS if headers.get(name)), None)
