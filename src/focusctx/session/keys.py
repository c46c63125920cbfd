"""Chain keys: a message is identified by a hash of its content and of the key before it, a span by its last message.

So any process recognises the same history without a session id, forks share the keys of their common past, and an
edited or reordered past has different keys from there on. User messages between two spans belong to the second one.
Cache marks are ignored: agents move them at every step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from ..types import Message, Owner
from ..wire.marks import unmarked

_BYTES = 16


class Chain:
    """The keys of a growing history; each message is hashed once."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        """`keys[i - 1]` belongs to span `s_i`. The last one still changes while its span grows."""
        self.heads: list[str] = []
        """`heads[n - 1]` identifies the first n messages."""

    @classmethod
    def of(cls, messages: Iterable[Message], owners: Iterable[Owner]) -> Chain:
        chain = cls()
        chain.extend(messages, owners)
        return chain

    def extend(self, messages: Iterable[Message], owners: Iterable[Owner]) -> None:
        for message, owner in zip(messages, owners, strict=True):
            before = self.heads[-1] if self.heads else ""
            head = blake2b(before.encode() + canonical(message), digest_size=_BYTES).hexdigest()
            self.heads.append(head)
            index = owner if isinstance(owner, int) else max(owner)
            if index > len(self.keys):
                self.keys.append(head)
            elif index:
                self.keys[-1] = head


def digest(*parts: str, size: int = _BYTES) -> str:
    """Hash a list of texts; different lists have different hashes, also when they join to the same text."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def canonical(message: Message) -> bytes:
    """Encode the message's content in one canonical form."""
    text = _spell(message)
    if '"cache_control"' in text or '"content":[' in text:
        text = _spell(unmarked(message))
    return text.encode("utf-8", "surrogatepass")


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


_spell = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_plain).encode
