"""The search tool's two engines: BM25 over passages in memory, or a server that others run."""

from __future__ import annotations

import heapq
import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Protocol

from focusctx.drafts.http import Endpoint, base_url, open_session
from focusctx.errors import BenchError, DraftError

from .data import Passage, passage_of

K1, B = 1.2, 0.75
"""Lucene's own."""
FOUND = 3
"""Passages per search of an agent."""

_WORD = re.compile(r"\w+")


class Search(Protocol):
    async def find(self, query: str, count: int) -> list[Passage]:
        """The best ones, best first."""


class Bm25:
    """An inverted index. Good for some hundred thousand passages; a whole Wikipedia wants a server."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = passages
        self._holders: dict[str, tuple[array[int], array[float]]] = defaultdict(_none)
        """For each word the places of the passages that hold it, and its weight in each."""
        mean = sum(len(terms(_whole(passage))) for passage in passages) / max(1, len(passages)) or 1.0
        for place, passage in enumerate(passages):
            count = Counter(terms(_whole(passage)))
            norm = K1 * (1 - B + B * count.total() / mean)
            for word, times in count.items():
                places, weights = self._holders[word]
                places.append(place)
                weights.append(times / (times + norm))

    async def find(self, query: str, count: int) -> list[Passage]:
        return self.best(query, count)

    def best(self, query: str, count: int) -> list[Passage]:
        scores: dict[int, float] = defaultdict(float)
        for word in terms(query):
            if word not in self._holders:
                continue
            places, weights = self._holders[word]
            rarity = math.log(1 + (len(self._passages) - len(places) + 0.5) / (len(places) + 0.5))
            for place, weight in zip(places, weights, strict=True):
                scores[place] += rarity * weight
        best = heapq.nsmallest(count, scores.items(), key=lambda item: (-item[1], item[0]))
        return [self._passages[place] for place, _ in best]


class SearchServer:
    """A server as Search-R1's: POST /retrieve with queries and topk, documents with contents in return."""

    def __init__(self, url: str) -> None:
        self._endpoint = Endpoint(f"{base_url(url).removesuffix('/retrieve')}/retrieve", {}, timeout=60.0, retries=4)

    async def find(self, query: str, count: int) -> list[Passage]:
        body = {"queries": [query], "topk": count, "return_scores": True}
        try:
            async with open_session() as session:
                answer = await self._endpoint.post(session, body)
            return [passage_of(hit.get("document", hit)) for hit in answer["result"][0]][:count]
        except (DraftError, LookupError, TypeError, AttributeError) as error:
            raise BenchError(f"the search server gave no passages: {error!r}") from error


def _none() -> tuple[array[int], array[float]]:
    return array("L"), array("d")


def _whole(passage: Passage) -> str:
    return f"{passage.title} {passage.text}"


def terms(text: str) -> list[str]:
    """Words in lower case, plural endings cut off."""
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in _WORD.findall(text.lower())]
