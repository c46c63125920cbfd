"""FIFO: the newest five turns, by number. Masking: all turns stay; of old ones, the observation does not."""

import pytest

from focusctx.baselines.rules import Fifo, Masking
from focusctx.errors import ConfigError
from focusctx.wire.part import PLACEHOLDER
from helpers.histories import Messages, run, step


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


LONG = "a result that is longer than the words that are put in its place"


def long_run(steps: int) -> Messages:
    return run(0) + [message for number in range(steps) for message in step(number, LONG)]


@pytest.mark.parametrize("keep", [10, 5, 3])
async def test_the_newest_observations_stay(keep: int) -> None:
    messages = long_run(14)
    method = Masking(keep)
    sent = (await method.compress(messages)).messages
    shown = [message["content"] for message in sent if message["role"] == "tool"]
    assert shown == [PLACEHOLDER] * (14 - keep) + [LONG] * keep
    assert [message for message in sent if message["role"] != "tool"] == [m for m in messages if m["role"] != "tool"]
    assert method.name == f"masking-{keep}"


async def test_a_masked_observation_still_answers_its_call() -> None:
    sent = (await Masking(1).compress(long_run(2))).messages
    assert sent[3] == {"role": "tool", "tool_call_id": "call_0", "content": PLACEHOLDER}


async def test_turns_without_an_observation_are_not_counted() -> None:
    talk = [{"role": "assistant", "content": "Let me think."}] * 3
    messages: Messages = [*long_run(3), *talk]
    assert [m["content"] for m in (await Masking(3).compress(messages)).messages if m["role"] == "tool"] == [LONG] * 3


async def test_observations_of_text_agents_are_masked_too() -> None:
    rules = "Answer with one action, such as:\n```bash\nls\n```"
    act = {"role": "assistant", "content": "I look.\n```bash\nls\n```"}
    seen = {"role": "user", "content": f"<output>\n{LONG}\n</output>"}
    messages = [{"role": "user", "content": rules}, act, seen, act, seen]
    sent = (await Masking(1).compress(messages)).messages
    assert sent == [*messages[:2], {"role": "user", "content": PLACEHOLDER}, *messages[3:]]


async def test_an_event_is_a_step_at_which_one_more_is_masked() -> None:
    method = Masking(3)
    assert [(await method.compress(long_run(steps))).happened for steps in range(6)] == [False] * 4 + [True] * 2
    short = Masking(1)
    assert not any([(await short.compress(run(steps))).happened for steps in range(6)])  # "result 1": nothing to mask


def test_to_keep_none_is_an_error() -> None:
    with pytest.raises(ConfigError, match="keep"):
        Masking(0)
