"""Retrieval: what is like the newest turn stays."""

from collections.abc import Sequence
from typing import Any

import pytest

from bench_helpers.answers import SPENT, by_first_letter
from focusctx.baselines.embedders import Embed, Embedded, embedder_from
from focusctx.baselines.retrieval import Retrieval
from focusctx.errors import ConfigError, DraftUnavailable
from helpers.histories import run, step


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
