"""The rules that choose turns without a plan, on histories that can be read."""

from collections.abc import Sequence
from typing import Any

import pytest

from bench_helpers.answers import SPENT, by_first_letter
from focusctx.baselines.embedders import Embed, Embedded, embedder_from
from focusctx.baselines.rules import Fifo, Masking, Retrieval
from focusctx.errors import ConfigError, DraftUnavailable
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


def letters(word: str) -> list[dict[str, Any]]:
    """A run whose observations begin with these letters."""
    return run(0) + [message for number, letter in enumerate(word, 1) for message in step(number, letter * 40)]


def chosen(messages: Sequence[Any]) -> str:
    return "".join(message["content"][0] for message in messages if message["role"] == "tool")


@pytest.fixture
def embed() -> Embed:
    return embedder_from(by_first_letter)


async def test_the_five_turns_most_like_the_last_in_their_order_and_the_last(embed: Embed) -> None:
    compressed = await Retrieval(embed, budget=10).compress(letters("abacabadaaa"))
    assert chosen(compressed.messages) == "aaaaaa"
    assert [message["content"] for message in compressed.messages][:2] == ["You help.", "Do the task."]
    assert compressed.happened


async def test_among_turns_equally_alike_the_newer_ones(embed: Embed) -> None:
    compressed = await Retrieval(embed, budget=10, top=3).compress(letters("abcdefa"))
    assert chosen(compressed.messages) == "aefa"


async def test_nothing_happens_up_to_the_budget_which_the_last_turn_does_not_count_against(embed: Embed) -> None:
    messages = letters("abcdefgh")
    older = len(messages) - 2
    tokens = sum(Retrieval(embed).count(text) for message in messages[2:older] for text in texts_of(message))
    within = await Retrieval(embed, budget=tokens).compress(messages)
    assert within.messages == messages
    assert not within.happened
    over = await Retrieval(embed, budget=tokens - 1).compress(messages)
    assert len(over.messages) == 2 + 2 * 6


def texts_of(message: dict[str, Any]) -> list[str]:
    calls = [f"{call['function']['name']}({call['function']['arguments']})" for call in message.get("tool_calls", ())]
    return [message["content"], *calls]


async def test_every_turn_is_embedded_once() -> None:
    asked: list[Sequence[str]] = []

    async def embed(texts: Sequence[str]) -> Embedded:
        asked.append(texts)
        return Embedded(by_first_letter(texts), SPENT)

    method = Retrieval(embed, budget=0, top=1)
    usages = [(await method.compress(letters(word))).usage for word in ("abc", "abcd", "abcd", "abcde")]
    assert [len(texts) for texts in asked] == [3, 1, 1]
    assert [usage.requests for usage in usages] == [1, 1, 0, 1]
    assert asked[0][0] == "Thought: thought 1\nAction: look({})\nObservation: " + "a" * 40


async def test_a_choice_holds_for_one_step_only(embed: Embed) -> None:
    method = Retrieval(embed, budget=0, top=1)
    seen = [await method.compress(letters(word)) for word in ("ab", "aba", "abab")]
    assert [chosen(each.messages) for each in seen] == ["ab", "aa", "bb"]
    assert [each.happened for each in seen] == [False, True, True]


async def refuse(texts: Sequence[str]) -> Embedded:
    raise DraftUnavailable("no embeddings today")


async def too_few(texts: Sequence[str]) -> Embedded:
    return Embedded([[1.0]])


@pytest.mark.parametrize(("embed", "why"), [(refuse, "no embeddings today"), (too_few, "one vector per text")])
async def test_an_embedder_that_fails_leaves_the_history_as_it_is(embed: Embed, why: str) -> None:
    messages = letters("abcdefgh")
    compressed = await Retrieval(embed, budget=0).compress(messages)
    assert compressed.messages == messages
    assert not compressed.happened
    assert why in str(compressed.failure)


async def test_a_text_with_no_direction_is_like_nothing() -> None:
    vectors = {"a": [1.0, 0.0], "b": [float("nan")] * 2, "c": [0.0, 0.0]}
    embed = embedder_from(lambda texts: [vectors[text.rpartition("Observation: ")[2][0]] for text in texts])
    compressed = await Retrieval(embed, budget=0, top=1).compress(letters("abca"))
    assert chosen(compressed.messages) == "aa"


@pytest.mark.parametrize("wrong", [{"budget": -1}, {"top": 0}])
def test_settings_out_of_range(embed: Embed, wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="budget"):
        Retrieval(embed, **wrong)
