"""The scripted agent: it does every task when it sees everything, and knows nothing it does not see."""

import ast
import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import focusctx_bench.benchmarks.office.clerk as clerk
import focusctx_bench.benchmarks.office.planner as planner
from bench_helpers.ledger import Untouched
from focusctx.baselines.rules import Fifo, Masking
from focusctx.invariants import violations
from focusctx.types import Message
from focusctx_bench.agent import Agent
from focusctx_bench.benchmarks.office import Office, scripted
from focusctx_bench.benchmarks.office.clerk import decide
from focusctx_bench.benchmarks.office.dependencies import dependencies
from focusctx_bench.protocols import ModelAnswer
from helpers.thorough import examples
from office.runs import Dropping, full_run, run, without

RANGES = {"easy": (10, 30), "medium": (22, 48), "hard": (40, 62)}


@pytest.mark.parametrize(("seed", "tasks"), [(42, 30), (1, 12), pytest.param(42, 120, marks=pytest.mark.slow)])
def test_every_task_is_done_when_nothing_is_forgotten(seed: int, tasks: int) -> None:
    for task in Office(seed, tasks).tasks():
        record = full_run(task.data["number"], seed)
        assert record.score.success == 1, (task.id, record.score)
        least, most = RANGES[task.difficulty]
        assert least <= len(record.steps) <= most, task.id
        assert not violations(record.messages, "chat_completions")


def test_no_two_runs_differ() -> None:
    again = run(5, Untouched)
    assert again.messages == full_run(5).messages


def test_it_keeps_nothing_from_turn_to_turn() -> None:
    """A new model for every turn does the same."""

    class Forgetful:
        name = "forgetful"

        async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> ModelAnswer:
            return await scripted().answer(messages, tools)

    office = Office(42, 9)
    record = asyncio.run(Agent(Forgetful(), Untouched).run(office, office.tasks()[8]))
    assert record.messages == full_run(8).messages


def test_it_cannot_look_into_the_world() -> None:
    for path in (Path(clerk.__file__), Path(planner.__file__)):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module != "clerk":
                pytest.fail(f"{path.name} imports from the office: {node.module}")


def test_a_token_that_is_gone_is_got_again() -> None:
    record = full_run(2)
    found = 0
    for number, used in enumerate(dependencies(record.messages), 1):
        for need in used:
            if need.fact[0] != "token":
                continue
            messages = record.messages[: record.steps[number - 1].reply]
            (name, _), *_ = decide(without(messages, need.steps)).calls
            assert name in ("login", "help_read", "notes_read"), need
            found += 1
    assert found > 20


def test_what_it_says_is_all_it_has_to_go_by() -> None:
    """The task's words gone, it does not know what to do."""
    assert decide([{"role": "system", "content": "x"}]).calls == ()


def test_a_fact_counts_wherever_it_stands() -> None:
    """A summary that states the facts is as good as the messages were."""
    record = full_run(0)
    for step in record.steps[3:]:
        told = "\n".join(str(message.get("content")) for message in record.messages[2 : step.reply - 3])
        tail = record.messages[step.reply - 3 : step.reply]
        first = next((place for place, message in enumerate(tail) if message["role"] == "assistant"), None)
        if first is None:
            continue
        told += "\n".join(str(message.get("content")) for message in tail[:first])
        summary: Message = {"role": "user", "content": f"What happened so far:\n{told}"}
        shortened = decide([*record.messages[:2], summary, *tail[first:]])
        full = decide(record.messages[: step.reply])
        assert [name for name, _ in shortened.calls] == [name for name, _ in full.calls]


def test_failed_logins_that_are_forgotten_lock_the_account() -> None:
    """Where passwords are in doubt, forgetting each step but the newest few leads to the third wrong one."""
    locked = [
        task.id
        for task in Office(42, 30).tasks()
        if any("locked" in complaint for complaint in run(task.data["number"], Fifo).score.details["complaints"])
    ]
    assert len(locked) >= 3


@pytest.mark.parametrize("number", [2, 5, 8])
def test_fifo_fails_where_it_must(number: int) -> None:
    """Hard tasks need at once what stands further apart than five turns."""
    assert run(number, Fifo).score.success == 0


def test_a_code_that_is_shown_once_is_lost_with_its_step() -> None:
    number = next(task.data["number"] for task in Office().tasks() if "approval" in task.data["kinds"])
    shown = _step_with(number, "Approval code for ")
    record = run(number, lambda: _gone({shown}, after=shown))
    assert record.score.success == 0
    assert "not to be had again" in record.messages[-1]["content"]


def test_a_list_of_which_a_page_is_gone_leaves_people_out_silently() -> None:
    """The paper's failure case: the agent believes it went through the list and acts on what it still sees."""
    found = 0
    for task in Office(42, 24).tasks():
        if "pay_writers" not in task.data["kinds"]:
            continue
        number = task.data["number"]
        topic = next(
            re.finditer(r"everyone who wrote me a mail about '(\w+)'", full_run(number).messages[1]["content"])
        )[1]
        first, second = (_step_with(number, f"Mails about '{topic}', page {page} of 2.") for page in (1, 2))
        lossy = run(number, partial(_gone, {first}, after=second))
        assert lossy.ended == "done"
        assert any(complaint.startswith("payments, missing") for complaint in lossy.score.details["complaints"])
        found += 1
    assert found >= 3


def _gone(steps: set[int], after: int) -> Dropping:
    return Dropping(lambda step: frozenset(steps) if step > after + 1 else frozenset())


def _step_with(number: int, words: str) -> int:
    """The first step of the full run whose result says this."""
    step: int = 0
    for message in full_run(number).messages:
        step += int(message["role"] == "assistant")
        if message["role"] == "tool" and words in message["content"]:
            return step
    raise AssertionError(words)


@given(st.integers(0, 29), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_it_can_go_on_from_any_legal_rest_of_a_history(number: int, data: st.DataObject) -> None:
    record = full_run(number)
    at = data.draw(st.integers(1, len(record.steps)))
    dropped = data.draw(st.frozensets(st.integers(1, at)))
    say = decide(without(record.messages[: record.steps[at - 1].reply], dropped))
    assert say.text


def test_a_masked_result_is_no_fact_but_its_call_is() -> None:
    for number in (1, 4, 7):
        record = run(number, lambda: Masking(3))
        assert len(record.steps) > len(full_run(number).steps)
