"""Cost of calls at a provider that caches prefixes, computed from views alone.

A call's input is what the provider has cached, at the read price, and the rest, at the write price. Cached is the
longest common prefix, by messages, of this call's view and the one before. It is assumed that calls come fast enough
for the cache to stay warm (a cold one only helps the smaller view), that the system prompt is cached from the first
call on, and that caches have no smallest size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..prices import Price
from ..types import Message

_SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Call:
    """The input of one call, in tokens."""

    cached: int
    """The prefix it shares with the call before."""
    again: int
    """Sent before, but behind the first change: read again uncached."""
    new: int

    @property
    def tokens(self) -> int:
        return self.cached + self.again + self.new

    def cost(self, price: Price) -> float:
        """USD."""
        units = price.cache_read * self.cached + price.cache_write * (self.again + self.new)
        return units * price.input / 1_000_000


def calls_of(views: Sequence[Sequence[Message]], fresh: Sequence[int], size: Callable[[Message], int]) -> list[Call]:
    """Return the calls that these views make; the last `fresh[i]` messages of view i were never sent before."""
    calls = []
    before: Sequence[Message] = [one for one in views[0] if one.get("role") in _SYSTEM] if views else []
    for view, unsent in zip(views, fresh, strict=True):
        same = common_prefix(before, view)
        border = max(len(view) - unsent, same)
        parts = (view[:same], view[same:border], view[border:])
        calls.append(Call(*(sum(map(size, part)) for part in parts)))
        before = view
    return calls


def common_prefix(first: Sequence[Message], second: Sequence[Message]) -> int:
    """Count the messages that two lists have in common at the start."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one is not other and one != other:
            return place
    return min(len(first), len(second))
