"""Who calls: decisions are kept apart by the caller's key, of which only a hash is ever held."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

SESSION = "x-focusctx-session"
_SESSIONS = (SESSION, "x-claude-code-session-id")
"""Headers that name the run a request belongs to; agents' own come after ours."""
_KEYS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


def tenant_of(headers: Mapping[str, str], upstream: str) -> str:
    """The scope of a caller's decisions. Two runs that look alike share theirs, unless a header tells them apart."""
    whose = [upstream, *(headers.get(name, "") for name in _KEYS)]
    whose.append(next((headers[name] for name in _SESSIONS if name in headers), ""))
    return blake2b("\0".join(whose).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
