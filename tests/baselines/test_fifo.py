"""FIFO: the newest five turns, by number and not by size."""

import pytest

from focusctx.baselines.fifo import Fifo
from focusctx.errors import ConfigError
from helpers.histories import Messages, run


async def test_the_system_prompt_the_task_and_the_last_five_turns() -> None:
    messages = run(8)
    compressed = await Fifo().compress(messages)
    assert compressed.messages == [*messages[:2], *messages[-10:]]
    assert compressed.happened
    assert compressed.usage.requests == 0


async def test_the_sixth_turn_is_the_first_event_and_every_later_one_another() -> None:
    method = Fifo()
    happened = [(await method.compress(run(steps))).happened for steps in range(9)]
    assert happened == [False] * 6 + [True] * 3


async def test_parallel_calls_are_one_turn() -> None:
    calls = [{"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}} for name in "ab"]
    turn = {"role": "assistant", "content": None, "tool_calls": calls}
    parallel: Messages = [turn, *({"role": "tool", "tool_call_id": name, "content": name} for name in "ba")]
    messages = [*run(3), *parallel]
    assert (await Fifo(turns=1).compress(messages)).messages == [*messages[:2], *parallel]


async def test_what_the_user_says_later_stays() -> None:
    later = {"role": "user", "content": "And be quick."}
    messages = [*run(2), later, *run(6)[2:]]
    assert later in (await Fifo().compress(messages)).messages


async def test_a_turn_that_goes_on_from_earlier_thinking_keeps_it() -> None:
    messages = run(3)
    messages[2]["reasoning_content"] = "First I thought about all of it."
    later = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "I do."}]
    for history in (messages, [*messages, *later]):
        compressed = await Fifo(turns=len(history) // 5).compress(history)
        assert compressed.messages == [*messages[:4], *history[6:]]


def test_no_turns_is_an_error() -> None:
    with pytest.raises(ConfigError, match="turns"):
        Fifo(turns=0)
