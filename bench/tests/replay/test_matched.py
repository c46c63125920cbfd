"""Comparators with as much room as another method left."""

import asyncio
from collections.abc import Sequence
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.baselines.embedders import embedder_from
from focusctx.invariants import violations
from focusctx.replay.comparators import COMPARATORS, Comparator, comparator
from focusctx.replay.facts import Evidence
from focusctx_bench.replay.points import Oracle, Point, point_at
from replay.logs import SHOPPING, long_run, run_of

EMBED = embedder_from("words")
RUN = long_run(12)
POINT = point_at(Evidence(RUN), len(RUN.messages), 0)
SPANS = POINT.history.spans
ALL = POINT.span_tokens
LARGEST = max(span.tokens for span in SPANS)


def left(name: str, room: int, point: Point = POINT) -> tuple[int, Comparator]:
    method = comparator(name, "focus", {point.history.newest: room}, EMBED)
    view = asyncio.run(method.compress(point.sent)).messages
    assert violations(view, "chat_completions") == []
    judged = point.judge(view)
    assert judged.words_lost == 0
    return judged.left, method


def kept(name: str, room: int) -> list[int]:
    method = comparator(name, "focus", {POINT.history.newest: room}, EMBED)
    view = asyncio.run(method.compress(POINT.sent)).messages
    return [span.index for span in SPANS if span.messages[1] in view]


@pytest.mark.parametrize("name", COMPARATORS)
@given(room=st.integers(0, ALL + 50))
def test_as_much_as_the_room_give_or_take_a_span(name: str, room: int) -> None:
    tokens, method = left(name, room)
    assert tokens > min(room, ALL) - LARGEST
    if not method.floored:
        assert tokens < room + LARGEST


@pytest.mark.parametrize("name", ["fifo", "retrieval"])
def test_on_average_neither_more_nor_less(name: str) -> None:
    rooms = range(SPANS[-1].tokens, ALL, 7)
    more = fmean(left(name, room)[0] - room for room in rooms)
    assert abs(more) < 0.2 * LARGEST  # the span across the line would be half a span, always kept or never


def test_the_newest_first() -> None:
    newest = SPANS[-1].tokens
    assert kept("fifo", newest) == [12]
    assert kept("fifo", newest + SPANS[-2].tokens) == [11, 12]
    assert kept("fifo", 0) == [12]
    assert kept("fifo", ALL) == list(range(1, 13))


def test_the_most_alike_first() -> None:
    """Span 12 acts on the key that span 9 gave; all other pages share no word with it but the tool's."""
    assert kept("retrieval", SPANS[-1].tokens + SPANS[8].tokens) == [9, 12]


def test_masking_has_a_least_size() -> None:
    least, method = left("masking", 0)
    assert method.floored == {12}
    assert SPANS[-1].tokens < least < ALL
    assert left("masking", least)[0] == least
    tokens, method = left("masking", least + SPANS[-2].tokens)
    assert tokens > least
    assert not method.floored
    assert kept("masking", least + SPANS[-2].tokens)[-2:] == [11, 12]


def test_a_step_without_a_room_keeps_all() -> None:
    method = comparator("fifo", "focus", {}, EMBED)
    assert list(asyncio.run(method.compress(POINT.sent)).messages) == list(POINT.sent)


def test_an_embedder_that_fails_is_said_and_nothing_is_dropped() -> None:
    def broken(texts: Sequence[str]) -> list[list[float]]:
        raise OSError("no vectors today")

    method = comparator("retrieval", "focus", {12: 10}, embedder_from(broken))
    compressed = asyncio.run(method.compress(POINT.sent))
    assert compressed.failure == "no vectors today"
    assert list(compressed.messages) == list(POINT.sent)


def test_the_oracle_keeps_all_that_is_needed_and_little_else() -> None:
    evidence = Evidence(run_of(SHOPPING))
    point = point_at(evidence, 8, 0)
    judged = point.judge(asyncio.run(Oracle(point).compress(point.sent)).messages)
    spans = point.history.spans
    assert (judged.needed, judged.there) == (2, 2)
    assert judged.left == spans[0].tokens + spans[2].tokens  # span 1 holds both items, span 3 is the newest
