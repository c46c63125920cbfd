"""Tool-result clearing: when it runs, what it clears, and what it leaves."""

import pytest

from focusctx.baselines.rules import ClearToolUses
from focusctx.errors import ConfigError
from helpers.histories import Messages, call, run, step

LONG = "one two three four five six seven eight nine ten " * 5


def long_run(steps: int) -> Messages:
    return run(0) + [message for number in range(steps) for message in step(number, LONG)]


def shown(messages: Messages) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "tool"]


async def test_below_the_trigger_nothing_changes() -> None:
    messages = long_run(6)
    compressed = await ClearToolUses(10_000).compress(messages)
    assert compressed.messages is messages
    assert not compressed.happened


async def test_all_results_but_the_newest_are_cleared_and_the_calls_stay() -> None:
    messages = long_run(8)
    compressed = await ClearToolUses(100, keep=2).compress(messages)
    assert compressed.happened
    assert shown(list(compressed.messages)) == ["[cleared]"] * 6 + [LONG] * 2
    assert [m for m in compressed.messages if m["role"] != "tool"] == [m for m in messages if m["role"] != "tool"]


async def test_between_two_clearings_the_prefix_does_not_move() -> None:
    method = ClearToolUses(350, keep=1)
    views, happened = [], []
    for steps in range(1, 14):
        compressed = await method.compress(long_run(steps))
        views.append(list(compressed.messages))
        happened.append(compressed.happened)
    assert 1 < sum(happened) < 6
    for before, after, event in zip(views, views[1:], happened[1:], strict=False):
        assert (after[: len(before)] == before) == (not event)


async def test_clearing_waits_until_it_saves_enough() -> None:
    method = ClearToolUses(100, keep=1, clear_at_least=300)
    assert not (await method.compress(long_run(4))).happened
    assert (await method.compress(long_run(9))).happened


async def test_excluded_tools_keep_their_results() -> None:
    messages = long_run(4)
    messages[2] = {**messages[2], "tool_calls": [call(0, "policy")]}
    sent = (await ClearToolUses(10, keep=1, exclude_tools=["policy"]).compress(messages)).messages
    assert shown(list(sent)) == [LONG, "[cleared]", "[cleared]", LONG]


async def test_inputs_are_cleared_on_request() -> None:
    messages = long_run(3)
    messages[2] = {**messages[2], "tool_calls": [call(0, arguments='{"path": "/a/long/path"}')]}
    sent = (await ClearToolUses(10, keep=1, clear_tool_inputs=True).compress(messages)).messages
    assert sent[2]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert messages[2]["tool_calls"][0]["function"]["arguments"] != "{}", "the history itself is never changed"
    sent = (await ClearToolUses(10, keep=1).compress(messages)).messages
    assert sent[2] is messages[2]


async def test_results_that_the_agent_has_not_seen_stay() -> None:
    many = {"role": "assistant", "content": None, "tool_calls": [call(number) for number in range(5)]}
    results = [{"role": "tool", "tool_call_id": f"call_{number}", "content": LONG} for number in range(5)]
    messages: Messages = [*run(0), many, *results]
    compressed = await ClearToolUses(10, keep=1).compress(messages)
    assert list(compressed.messages) == messages


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="keep"):
        ClearToolUses(10, keep=-1)
