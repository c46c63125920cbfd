"""FOCUS under the protocol of the baselines: the paper's rule, one session per run."""

import asyncio

from focusctx.baselines.focus import FocusMethod
from focusctx.config import FocusConfig
from focusctx.drafts import ScriptedDraft
from focusctx.errors import DraftUnavailable
from focusctx.pipeline.split import read_history
from focusctx.tokens import Counter
from focusctx.types import Reply, Usage
from helpers.histories import run

FIRST = "Step: go on | Depends on: [s_1]\nRescued Spans: [s_2] | Reason: it failed"


async def test_cited_and_rescued_turns_stay() -> None:
    messages = run(5)
    defensive = await FocusMethod(ScriptedDraft([FIRST]), budget=10).compress(messages)
    assert defensive.messages == [*messages[:6], *messages[-2:]]
    optimistic = await FocusMethod(ScriptedDraft([FIRST]), budget=10, defensive=False).compress(messages)
    assert optimistic.messages == [*messages[:4], *messages[-2:]]
    assert defensive.happened
    assert optimistic.happened


async def test_settings_reach_the_algorithm() -> None:
    draft = ScriptedDraft([FIRST, "Step: end | Depends on: []"])
    method = FocusMethod(draft, budget=10, rollouts=2, threshold=0.6, defensive=False)
    compressed = await method.compress(run(3))
    assert compressed.messages == [*run(0), *run(3)[-2:]]  # cited by half of the sketches: below the threshold
    assert compressed.usage.requests == 2
    assert not (await FocusMethod(draft, budget=10_000).compress(run(3))).happened


async def test_over_budget_is_reason_enough_at_every_step_with_a_new_turn() -> None:
    draft = ScriptedDraft([Reply("Step: end | Depends on: []", Usage(1, 100, 10))])
    method = FocusMethod(draft, budget=0)
    seen = [await method.compress(run(steps)) for steps in (1, 2, 3, 3, 4)]
    assert [each.happened for each in seen] == [False, True, True, False, True]
    assert [each.usage.input_tokens for each in seen] == [0, 300, 300, 0, 300]
    assert list(seen[-1].messages) == [*run(0), *run(4)[-2:]]


async def test_a_step_over_budget_asks_again_however_little_is_new_and_none_asks_ahead() -> None:
    needed = ", ".join(f"s_{number}" for number in range(1, 60))
    draft = ScriptedDraft([f"Step: use all of it | Depends on: [{needed}]"])
    method = FocusMethod(draft, budget=500)
    tokens = [read_history(run(steps), FocusConfig(), Counter().count).tokens for steps in range(60)]
    first = next(steps for steps, count in enumerate(tokens) if count > 500)
    await method.compress(run(first - 1))
    await asyncio.sleep(0)
    assert draft.prompts == []
    seen = [await method.compress(run(steps)) for steps in (first, first + 1, first + 2)]
    assert [each.usage.requests for each in seen] == [3, 3, 3]
    assert not any(each.happened or each.failure for each in seen)


async def test_a_draft_that_fails_is_told_of() -> None:
    method = FocusMethod(ScriptedDraft([DraftUnavailable("the server is down")]), budget=0)
    compressed = await method.compress(run(3))
    assert compressed.messages == run(3)
    assert not compressed.happened
    assert "the server is down" in str(compressed.failure)


async def test_one_run_does_not_know_of_another() -> None:
    draft = ScriptedDraft([DraftUnavailable("the server is down")] * 9 + ["Step: end | Depends on: []"] * 3)
    failing = FocusMethod(draft, budget=0, rollouts=3)
    for steps in (3, 4, 5):
        await failing.compress(run(steps))
    draft = ScriptedDraft(["Step: end | Depends on: []"])
    assert (await FocusMethod(draft, budget=0).compress(run(3))).happened
