"""The spans that a view leaves out, whole or down to a skeleton."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """The spans that are not shown whole. Their originals are in the store."""

    dropped: frozenset[int] = frozenset()
    """Every one of these spans, skeletons included."""
    skeletons: frozenset[int] = frozenset()
    """The dropped spans whose thought and action stay."""

    def then(self, dropped: Collection[int], skeletons: Collection[int]) -> Cut:
        """Drop more spans, some of them to skeletons. An earlier skeleton may now be dropped altogether."""
        left = self.skeletons.difference(dropped).union(skeletons)
        return Cut(self.dropped.union(dropped), left)

    def without(self, kept: Collection[int]) -> Cut:
        """Bring these spans back."""
        return Cut(self.dropped.difference(kept), self.skeletons.difference(kept))

    def since(self, earlier: Cut) -> Cut:
        """The changes that lead from `earlier` to this cut: `earlier.then(…)` of them gives this cut."""
        news = (self.dropped - earlier.dropped) | (earlier.skeletons - self.skeletons)
        return Cut(news & self.dropped, news & self.skeletons)
