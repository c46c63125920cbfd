"""What a view is without: spans that are gone, and spans of which only a skeleton is left."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """The spans that are not whole. Their originals are in the store."""

    dropped: frozenset[int] = frozenset()
    """All of them."""
    skeletons: frozenset[int] = frozenset()
    """Those of them whose thought and action stay."""

    def then(self, dropped: Collection[int], skeletons: Collection[int]) -> Cut:
        """With more spans dropped, some of them to skeletons. What was a skeleton may go altogether."""
        left = self.skeletons.difference(dropped).union(skeletons)
        return Cut(self.dropped.union(dropped), left)

    def without(self, kept: Collection[int]) -> Cut:
        """With these spans back."""
        return Cut(self.dropped.difference(kept), self.skeletons.difference(kept))

    def since(self, earlier: Cut) -> Cut:
        """What one has to be told who knows an earlier one: `earlier.then(…)` of it is this one."""
        news = (self.dropped - earlier.dropped) | (earlier.skeletons - self.skeletons)
        return Cut(news & self.dropped, news & self.skeletons)
