"""FOCUS as a method, and its controls, which get as many tokens."""

import asyncio
from collections.abc import Callable

import pytest

from focusctx.baselines.focus import DefaultFocus, FocusMethod, Matched, at_random, newest_first
from focusctx.baselines.method import Compressed, Method
from focusctx.baselines.registry import MethodSettings, method_from
from focusctx.config import FocusConfig
from focusctx.drafts import ScriptedDraft
from focusctx.errors import ConfigError, DraftUnavailable
from focusctx.pipeline.split import read_history
from focusctx.tokens import Counter
from focusctx.types import Message, Reply, Usage
from helpers.histories import Messages, run, step

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


BUDGET = 600
KEEP_EARLY = "Step: go on | Depends on: [s_1, s_2]\nRescued Spans: [] | Reason: none"


def growing(steps: int) -> list[Messages]:
    """Histories of an agent, step by step; results have different lengths."""
    messages = run(0)
    found = []
    for number in range(1, steps + 1):
        messages = [*messages, *step(number, f"result {number} " * (5 + 7 * (number % 4)))]
        found.append(messages)
    return found


def follow(method: Method, histories: list[Messages]) -> list[Compressed]:
    async def steps() -> list[Compressed]:
        return [await method.compress(history) for history in histories]

    return asyncio.run(steps())


def focus() -> DefaultFocus:
    return DefaultFocus(ScriptedDraft([KEEP_EARLY]), BUDGET, {"ahead": 1.0, "levels": False, "target": None})


def size(messages: list[Message]) -> int:
    history = read_history(messages, FocusConfig(), Counter().count, format="chat_completions")
    return sum(span.tokens for span in history.spans)


MAKERS = {
    "random": lambda: Matched("random", focus(), at_random()),
    "newest": lambda: Matched("newest", focus(), newest_first),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_events_are_those_of_focus_and_tokens_are_no_more(make: Callable[[], Matched]) -> None:
    histories = growing(40)
    ours, theirs = follow(make(), histories), follow(focus(), histories)
    assert [each.happened for each in ours] == [each.happened for each in theirs]
    events = [place for place, each in enumerate(theirs) if each.happened]
    assert len(events) > 2
    for place in events:
        mine, focused = size(list(ours[place].messages)), size(list(theirs[place].messages))
        assert 0.6 * focused < mine <= focused


def test_newest_keeps_what_is_new_and_random_does_not() -> None:
    histories = growing(30)
    newest = follow(Matched("newest", focus(), newest_first), histories)
    by_chance = follow(Matched("random", focus(), at_random()), histories)
    other = follow(Matched("random", focus(), at_random(7)), histories)
    place = next(place for place, each in enumerate(newest) if each.happened)
    kept = [message for message in newest[place].messages if message["role"] == "tool"]
    assert kept[-2:] == [message for message in histories[place] if message["role"] == "tool"][-2:]
    assert len({str(run[place].messages) for run in (newest, by_chance, other)}) == 3


def test_usage_is_that_of_the_draft_and_a_dead_draft_is_no_result() -> None:
    compressed = follow(Matched("random", focus(), at_random()), growing(20))
    by_focus = follow(focus(), growing(20))
    assert sum(each.usage.requests for each in by_focus) > 0
    assert [each.usage for each in compressed] == [each.usage for each in by_focus]
    dead = DefaultFocus(ScriptedDraft([DraftUnavailable("down")]), BUDGET, {"ahead": 1.0})
    assert any(each.unanswered for each in follow(Matched("random", dead, at_random()), growing(20)))


@pytest.mark.parametrize("name", ["focus", "random", "newest", "retrieval-matched"])
def test_every_setting_of_focus_can_be_given(name: str) -> None:
    settings = MethodSettings(
        draft="offline", embedder="words", method_options={"target": 0.2, "growth": 0.5, "seed": 1}
    )
    assert method_from(name, settings)().name == name
    with pytest.raises(ConfigError, match="unknown setting 'tarte'"):
        method_from(name, MethodSettings(draft="offline", embedder="words", method_options={"tarte": 1}))
    with pytest.raises(ConfigError, match="target must be"):
        method_from(name, MethodSettings(draft="offline", embedder="words", method_options={"target": "much"}))


def test_focus_by_default_is_what_a_session_does() -> None:
    from focusctx import Focus

    histories = growing(40)
    session = Focus("offline", budget=BUDGET).session()
    expected = [list(session.view(history, format="chat_completions")) for history in histories]
    method = follow(DefaultFocus("offline", BUDGET), histories)
    assert [list(each.messages) for each in method] == expected
    assert any(each.happened for each in method)
