"""Prompting, ACON and LLMLingua: when a text takes the place of older turns, where it stands, what it was made of."""

from pathlib import Path

import pytest

from bench_helpers.answers import SPENT, Scripted, every_third_word
from focusctx.errors import ConfigError, DraftTimeout
from focusctx.types import Reply
from focusctx_bench.baselines.summary import HEADING, START, Acon, LLMLingua, Prompting, read_guideline
from helpers.histories import Messages, run, step

LONG = "one two three four five six seven eight nine ten"


def long_run(steps: int) -> Messages:
    return run(0) + [message for number in range(1, steps + 1) for message in step(number, LONG)]


def made(text: str) -> dict[str, str]:
    return {"role": "user", "content": f"{HEADING}\n\n{text}"}


async def test_the_summary_stands_for_all_but_the_last_turn() -> None:
    messages = long_run(4)
    compressed = await Prompting(Scripted("It went well."), budget=30).compress(messages)
    assert compressed.messages == [*messages[:2], made("It went well."), *messages[-2:]]
    assert compressed.happened
    assert compressed.usage == SPENT


async def test_between_events_the_beginning_does_not_move() -> None:
    ask = Scripted("It went well.", "It went on.")
    method = Prompting(ask, budget=40)
    first = await method.compress(long_run(4))
    second = await method.compress(long_run(5))
    assert second.messages == [*first.messages, *long_run(5)[-2:]]
    assert not second.happened
    assert second.usage.requests == 0
    assert len(ask.asked) == 1


async def test_the_summary_before_counts_and_is_part_of_the_next() -> None:
    ask = Scripted("It went well " * 12, "It went on.")
    method = Prompting(ask, budget=40)
    await method.compress(long_run(4))
    second = await method.compress(long_run(5))  # one more older turn would be within the budget by itself
    assert second.messages == [*run(0), made("It went on."), *long_run(5)[-2:]]
    assert second.happened
    question = ask.asked[1][1]
    assert f"\n\nMemory so far:\n{'It went well ' * 12}".rstrip() + "\n\nSteps since:\n" in question
    assert "Step 4" in question
    assert "Step 3" not in question
    assert "Step 5" not in question


async def test_a_summary_over_the_budget_is_not_written_again_without_a_new_turn() -> None:
    ask = Scripted("It went well " * 12)
    method = Prompting(ask, budget=10)
    first, again = [await method.compress(long_run(3)) for _ in range(2)]
    assert again.messages == first.messages
    assert not again.happened
    assert len(ask.asked) == 1


async def test_the_gate_is_older_turns_alone() -> None:
    messages = long_run(3)
    older = sum(Prompting(Scripted("")).count(text) for text in ("thought 1", "look({})", LONG)) * 2
    system = {"role": "system", "content": "You help. " * 500}
    task = {"role": "user", "content": "Do the task. " * 500}
    within = await Prompting(Scripted("short"), budget=older).compress([system, task, *messages[2:]])
    assert within.messages == [system, task, *messages[2:]]
    assert (await Prompting(Scripted("short"), budget=older - 1).compress(messages)).happened


async def test_what_the_model_is_shown() -> None:
    ask = Scripted("short")
    words = {"role": "user", "content": "Be quick about it."}
    await Prompting(ask, budget=0).compress([*long_run(1), words, *long_run(3)[4:]])
    system, user = ask.asked[0]
    assert "Reasoning:" in system
    assert "Completed:" in system
    assert user == (
        "Task:\nDo the task.\n\nSteps since:\n"
        f"Step 1\nThought: thought 1\nAction: look({{}})\nObservation: {LONG}\n\n"
        "The user:\nBe quick about it.\n\n"
        f"Step 2\nThought: thought 2\nAction: look({{}})\nObservation: {LONG}"
    )


async def test_words_of_the_user_stay_where_they_were_said() -> None:
    early, late = {"role": "user", "content": "Early."}, {"role": "user", "content": "Late."}
    messages = [*long_run(1), early, *long_run(2)[4:], late, *long_run(3)[6:]]
    sent = (await Prompting(Scripted("short"), budget=0).compress(messages)).messages
    assert sent == [*messages[:2], early, made("short"), late, *messages[-2:]]


@pytest.mark.parametrize(
    ("answer", "why", "requests"),
    [
        (DraftTimeout("no answer in 20 s"), "no answer in 20 s", 0),
        (ZeroDivisionError("oh"), "oh", 0),
        (Reply(" \n", SPENT), "empty", 1),
        (Reply("It went", SPENT, truncated=True), "cut off", 1),
    ],
)
async def test_a_writer_that_fails_leaves_what_was_sent_as_it_is(answer: Reply, why: str, requests: int) -> None:
    method = Prompting(Scripted("It went well.", answer), budget=0)
    first = await method.compress(long_run(2))
    second = await method.compress(long_run(3))
    assert second.messages == [*first.messages, *long_run(3)[-2:]]
    assert not second.happened
    assert why in str(second.failure)
    assert second.usage.requests == requests
    third = await method.compress(long_run(4))
    assert third.happened
    assert third.messages == [*run(0), made("It went well."), *long_run(4)[-2:]]


async def test_what_is_wrong_with_the_program_is_not_swallowed() -> None:
    with pytest.raises(ConfigError):
        await Prompting(Scripted(ConfigError("no such model")), budget=0).compress(long_run(3))


async def test_acon_writes_by_its_guideline() -> None:
    ask = Scripted("Completed: step 1.")
    compressed = await Acon(ask, "Keep every {id}.", budget=0).compress(long_run(2))
    assert compressed.messages == [*run(0), made("Completed: step 1."), *long_run(2)[-2:]]
    assert "\nKeep every {id}.\n" in ask.asked[0][0]
    for heading in ("Reasoning", "Variables", "To-do", "Completed", "Guardrails"):
        assert f"\n{heading}: " in START


def test_guidelines_are_text_files(tmp_path: Path) -> None:
    (tmp_path / "ut.md").write_text("Keep ids: żółć.", encoding="utf-8")
    assert read_guideline(tmp_path / "ut.md") == "Keep ids: żółć."
    with pytest.raises(ConfigError, match=r"co\.md"):
        read_guideline(tmp_path / "co.md")
    with pytest.raises(ConfigError, match="empty"):
        Acon(Scripted(""), " \n")


async def test_llmlingua_is_given_the_text_before_and_the_turns() -> None:
    given: list[str] = []

    def shorten(text: str) -> str:
        given.append(text)
        return every_third_word(text)

    method = LLMLingua(shorten, budget=0)
    words = {"role": "user", "content": "Be quick about it."}
    first = await method.compress([*long_run(1), words, *long_run(2)[4:]])
    assert given == [f"Step 1\nThought: thought 1\nAction: look({{}})\nObservation: {LONG}"]
    text = every_third_word(given[0])
    assert first.messages == [*run(0), made(text), words, *long_run(2)[4:]]
    await method.compress([*long_run(1), words, *long_run(3)[4:]])
    assert given[1].startswith(f"{text}\n\nStep 2\n")


def test_a_budget_below_nothing_is_an_error() -> None:
    with pytest.raises(ConfigError, match="budget"):
        Prompting(Scripted(""), budget=-1)
