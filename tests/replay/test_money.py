"""From views to money, held against a run that was reckoned by hand."""

from typing import Any

import pytest

from focusctx.prices import Price
from focusctx.replay.money import Call, calls_of, common_prefix
from focusctx.types import Message

CALLS = 20
SYSTEM, TASK, TURN, RESULT = 50, 150, 10, 90
SPAN = TURN + RESULT
AGENT = Price(input=2.0, output=8.0, cache_read=0.25, cache_write=1.25)


def message(role: str, number: int, tokens: int) -> dict[str, Any]:
    return {"role": role, "content": f"{role} {number}", "tokens": tokens}


RUN = [message("system", 0, SYSTEM), message("user", 0, TASK)] + [
    part for n in range(CALLS) for part in (message("assistant", n, TURN), message("tool", n, RESULT))
]
TURNS = range(2, 2 + 2 * CALLS, 2)


def size(part: Message) -> int:
    return int(part["tokens"])


def whole() -> list[Call]:
    return calls_of([RUN[:turn] for turn in TURNS], [2] * CALLS, size)


def compressed() -> list[Call]:
    """At the eleventh call the first five of ten spans go: ten messages from the third on."""
    views = [RUN[:turn] if number < 10 else RUN[:2] + RUN[12:turn] for number, turn in enumerate(TURNS)]
    return calls_of(views, [2] * CALLS, size)


def test_the_uncompressed_run_reads_the_past_and_writes_the_new() -> None:
    calls = whole()
    assert [call.again for call in calls] == [0] * CALLS
    assert [call.new for call in calls] == [TASK] + [SPAN] * (CALLS - 1)
    assert [call.cached for call in calls] == [SYSTEM] + [SYSTEM + TASK + SPAN * n for n in range(CALLS - 1)]
    read = SYSTEM + (CALLS - 1) * (SYSTEM + TASK) + SPAN * sum(range(CALLS - 1))
    written = TASK + (CALLS - 1) * SPAN
    dollars = (0.25 * read + 1.25 * written) * 2 / 1e6
    assert sum(call.cost(AGENT) for call in calls) == pytest.approx(dollars)


def test_a_moved_prefix_is_written_again_once() -> None:
    full, calls = whole(), compressed()
    assert calls[:10] == full[:10]
    moved = calls[10]
    assert (moved.cached, moved.again, moved.new) == (SYSTEM + TASK, 4 * SPAN, SPAN)
    assert [call.again for call in calls[11:]] == [0] * 9
    assert [call.tokens for call in calls[10:]] == [call.tokens - 5 * SPAN for call in full[10:]]
    # Ten calls are without 500 tokens each, at the read price; 400 tokens cost the difference once.
    saved = sum(call.cost(AGENT) for call in full) - sum(call.cost(AGENT) for call in calls)
    assert saved == pytest.approx((10 * 0.25 * 5 * SPAN - (1.25 - 0.25) * 4 * SPAN) * 2 / 1e6)


def test_equal_messages_are_the_same_to_a_cache() -> None:
    copies = [dict(part) for part in RUN]
    assert common_prefix(RUN, copies) == len(RUN)
    assert common_prefix(RUN, [*copies[:3], message("user", 1, 1)]) == 3
    assert common_prefix([], RUN) == 0
