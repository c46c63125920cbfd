"""Walks: by hand, and over histories of every kind."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.baselines.method import Compressed
from focusctx.baselines.rules import NoCompression
from focusctx.pipeline.rebuild import rebuild
from focusctx.prices import Price
from focusctx.replay.evidence import Evidence
from focusctx.replay.methods import Methods, ReplaySettings
from focusctx.replay.record import RunRecord
from focusctx.replay.runs import Run, count
from focusctx.replay.walk import Walker
from focusctx.types import Message
from replay.logs import SHOPPING, long_run, run_of
from strategies import COMPLETE_HISTORIES, format_of

PRICE = Price(input=2.0, output=8.0, cache_read=0.25)


class Views:
    """A method that sends what a function makes of the history."""

    name = "views"

    def __init__(self, view: Callable[[Sequence[Message]], Sequence[Message]]) -> None:
        self._view = view

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        view = self._view(messages)
        return Compressed(view, happened=len(view) < len(messages))


async def walked(run: Run, view: Callable[[Sequence[Message]], Sequence[Message]], budget: int = 0) -> RunRecord:
    return await Walker(Evidence(run), budget, PRICE).walk(Views(view))


async def test_nothing_is_missing_where_everything_is_sent() -> None:
    whole = await walked(run_of(SHOPPING), lambda messages: messages)
    assert [(step.needed, step.there) for step in whole.steps] == [(0, 0), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1)]
    assert all(step.span_left == step.span_tokens for step in whole.steps)
    assert all(step.sent_tokens == step.history_tokens for step in whole.steps)
    assert [step.repeated for step in whole.steps] == [False, False, False, True, False, False]
    assert not any(step.forgotten for step in whole.steps)
    assert (whole.events, whole.failures, whole.words_lost) == (0, 0, 0)
    assert whole.peak == whole.steps[-1].history_tokens


async def test_without_the_first_two_spans() -> None:
    """From the third action on: items and account are gone, and so is the failure that span 4 repeats."""
    cut = await walked(run_of(SHOPPING), lambda messages: [*messages[:2], *messages[6:]])
    assert [(step.needed, step.there) for step in cut.steps] == [(0, 0), (1, 0), (1, 0), (1, 0), (1, 0), (1, 1)]
    assert [step.forgotten for step in cut.steps] == [False, False, False, True, False, False]
    spans = Evidence(run_of(SHOPPING)).history.spans
    assert [step.span_left for step in cut.steps][2:5] == [
        0,
        spans[2].tokens,
        spans[2].tokens + spans[3].tokens,
    ]
    assert cut.words_lost == 0
    assert cut.events == 5


async def test_only_steps_over_the_budget_are_due() -> None:
    whole = await walked(run_of(SHOPPING), lambda messages: messages, budget=100)
    assert [step.due for step in whole.steps] == [step.history_tokens > 100 for step in whole.steps]
    assert {step.due for step in whole.steps} == {True, False}


async def test_lost_words_are_noticed() -> None:
    without_task = await walked(run_of(SHOPPING), lambda messages: [messages[0], *messages[2:]])
    assert without_task.words_lost == 1
    rewritten = await walked(
        run_of(SHOPPING), lambda messages: [{"role": "system", "content": "Shop rules."}, *messages[1:]]
    )
    assert rewritten.words_lost == 1


async def test_money_with_and_without_a_cache() -> None:
    run = run_of(SHOPPING)
    whole = await walked(run, lambda messages: messages)
    actions = Evidence(run).actions
    system = count("Shop rules: policy_v2.")
    sizes = [step.history_tokens + system for step in whole.steps]
    output = 8 * sum(action.output_tokens for action in actions)
    assert whole.cost == pytest.approx((2 * sum(sizes) + output) / 1e6)
    new = [sizes[0] - system, *(after - before for before, after in pairwise(sizes))]
    cached = [size - fresh for size, fresh in zip(sizes, new, strict=True)]
    assert whole.cost_cached == pytest.approx((2 * (sum(new) + 0.25 * sum(cached)) + output) / 1e6)
    n_o = [action.output_tokens for action in actions]
    paper = sum((step.sent_tokens + 2 * o) * o / 2 for step, o in zip(whole.steps, n_o, strict=True))
    assert whole.dependency == paper


async def test_focus_compresses_again_and_again() -> None:
    run = long_run(40)
    settings = ReplaySettings(methods=("focus-d", "focus"))
    for name in settings.methods:
        walk = await Walker(Evidence(run), 600, None).walk(Methods(settings).make(name, run, 600))
        assert walk.events > 1
        assert walk.failures == walk.words_lost == 0
        assert walk.cost is None
        late = walk.steps[-1]
        assert late.span_left < 0.8 * late.span_tokens


# ----------------------------------------------------------------------------------------------- any history


@pytest.mark.parametrize("kind", COMPLETE_HISTORIES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_tokens_and_words_of_any_view_add_up(kind: str, data: st.DataObject) -> None:
    """Whichever spans go, the rest is measured as the splitter measures it, and no word of the user is missed."""
    messages: list[dict[str, Any]] = data.draw(COMPLETE_HISTORIES[kind])
    run = Run("made.jsonl", "1", tuple(messages), format_of(kind))
    evidence = Evidence(run)
    gone = data.draw(st.sets(st.sampled_from([span.index for span in evidence.history.spans] or [0])))

    def view(given: Sequence[Message]) -> Sequence[Message]:
        history = run.history(len(given))
        return rebuild(history, [span.index for span in history.spans if span.index not in gone])

    full = asyncio.run(Walker(evidence, 0, None).walk(NoCompression()))
    part = asyncio.run(Walker(evidence, 0, None).walk(Views(view)))
    assert full.words_lost == part.words_lost == 0
    for step, other in zip(full.steps, part.steps, strict=True):
        history = run.history(next(one.messages for one in evidence.actions if one.span == step.step))
        assert step.there == step.needed
        assert step.span_left == step.span_tokens == sum(span.tokens for span in history.spans)
        assert step.sent_tokens == step.history_tokens == history.tokens
        assert other.there <= other.needed == step.needed
        assert other.span_left == sum(span.tokens for span in history.spans if span.index not in gone)
