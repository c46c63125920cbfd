"""ACON's optimiser: which runs it learns from, what it is shown, what comes out."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from bench_helpers.answers import SPENT, Scripted
from focusctx.errors import ConfigError, DraftError, DraftUnavailable
from focusctx.types import Usage
from focusctx_bench.baselines.acon import contrasts, improve, run_as_text, shorten, successes
from helpers.histories import Messages, run

BETTER = "Sure.\n<guideline>\nKeep ids.\n</guideline>"


@dataclass
class Score:
    success: float


@dataclass
class Step:
    reply: int
    sent: list[Any]


@dataclass
class Record:
    task: str
    score: Score
    messages: Messages = field(default_factory=lambda: run(3))
    made: Messages = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def sent(self, step: Step) -> list[Any]:
        return step.sent


def compressed(task: str, success: float) -> Record:
    memories = [{"role": "user", "content": text} for text in ("one", "two")]
    messages = run(4)
    steps = [
        Step(2, messages[:2]),
        Step(4, [*messages[:2], memories[0], *messages[2:4]]),
        Step(6, [*messages[:2], memories[0], *messages[2:6]]),
        Step(8, [*messages[:2], memories[1], *messages[6:8]]),
    ]
    return Record(task, Score(success), messages, memories, steps)


PAIR: Any = (Record("a", Score(1.0)), compressed("a", 0.0))


def test_a_contrast_is_a_task_that_went_worse_with_memories() -> None:
    full = [Record("a", Score(1.0)), Record("b", Score(1.0)), Record("c", Score(0.0)), Record("e", Score(1.0))]
    short = [compressed("a", 0.0), compressed("b", 1.0), compressed("c", 0.0), compressed("d", 0.0)]
    never_compressed = Record("e", Score(0.0))
    (pair,) = contrasts(full, [*short, never_compressed])
    assert pair == (full[0], short[0])


def test_a_score_between_none_and_all_can_be_worse_too() -> None:
    full = [Record("a", Score(0.5)), Record("b", Score(0.25))]
    assert [one.task for one, _ in contrasts(full, [compressed("a", 0.25), compressed("b", 0.25)])] == ["a"]


def test_successes_scored_as_much_as_the_full_history_with_something_compressed() -> None:
    full = [Record(task, Score(score)) for task, score in (("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 0.0), ("e", 0.5))]
    short = [compressed("a", 1.0), compressed("b", 0.5), Record("c", Score(1.0)), compressed("d", 0.0)]
    runs = successes(full, [*short, compressed("e", 0.75), compressed("f", 0.75)])
    assert [one.task for one in runs] == ["a", "e"]
    assert runs[0] is short[0]


def test_a_run_is_told_with_each_memory_where_the_agent_first_had_it() -> None:
    memory, messages = {"role": "user", "content": "All is well."}, run(2)
    steps = [Step(2, messages[:2]), Step(4, [*messages[:2], memory, *messages[2:4]])]
    assert run_as_text(Record("a", Score(1.0), messages, [memory], steps)) == (
        "Task:\nDo the task.\n\n"
        "Step 1\nThought: thought 1\nAction: look({})\nObservation: result 1\n\n"
        "The memory from here on:\nAll is well.\n\n"
        "Step 2\nThought: thought 2\nAction: look({})\nObservation: result 2"
    )


async def test_improving_asks_about_every_pair_then_for_the_guideline() -> None:
    ask = Scripted("It lost the id.", "It lost the date.", BETTER)
    optimised = await improve(ask, "Be brief.", [PAIR, PAIR])
    assert optimised.guideline == "Keep ids."
    assert optimised.feedback == ("It lost the id.", "It lost the date.")
    assert optimised.usage == SPENT + SPENT + SPENT
    first, second, last = ask.asked
    assert first == second
    assert "The guideline:\nBe brief.\n\nThe run with the whole history:\nTask:" in first[1]
    assert "from here on:\none" in first[1].partition("The run with memories:")[2]
    assert "Feedback 1:\nIt lost the id.\n\nFeedback 2:\nIt lost the date." in last[1]
    assert "may get lost" in last[0]


async def test_shortening_looks_at_runs_that_went_well() -> None:
    ask = Scripted("Nobody used the dates.", "<guideline>Ids.</guideline>")
    optimised = await shorten(ask, "Keep ids and dates.", [PAIR[1]])
    assert optimised.guideline == "Ids."
    assert "The run:\nTask:" in ask.asked[0][1]
    assert "shorter" in ask.asked[1][0]


async def test_one_answer_that_fails_does_not_lose_the_others(caplog: pytest.LogCaptureFixture) -> None:
    ask = Scripted(DraftUnavailable("busy"), "It lost the date.", BETTER)
    optimised = await improve(ask, "Be brief.", [PAIR, PAIR])
    assert optimised.feedback == ("It lost the date.",)
    assert "busy" in caplog.text


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([DraftUnavailable("busy")], "busy"),
        (["It lost the id.", "Keep ids."], "no guideline"),
        (["It lost the id.", "<guideline> </guideline>"], "no guideline"),
    ],
)
async def test_no_guideline_is_an_error(answers: list[Any], why: str) -> None:
    with pytest.raises(DraftError, match=why):
        await improve(Scripted(*answers), "Be brief.", [PAIR])


async def test_nothing_to_learn_from_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no runs"):
        await improve(Scripted(BETTER), "Be brief.", [])


async def test_the_cost_of_answers_adds_up() -> None:
    optimised = await improve(Scripted("It lost the id.", BETTER), "Be brief.", [PAIR])
    assert optimised.usage == Usage(2, 20, 10, 0.5)
