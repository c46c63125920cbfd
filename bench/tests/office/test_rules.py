"""Rules that are read early: where they stand, what they change, and how breaking them is noticed."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bench_helpers.ledger import Untouched
from focusctx.errors import ConfigError
from focusctx_bench.agent import Agent
from focusctx_bench.benchmarks.office import Office, benchmark, make, scripted
from focusctx_bench.benchmarks.office.chores import NOTES, PLACES, Rule
from focusctx_bench.protocols import Options
from focusctx_bench.record import Record
from office.runs import Dropping

HARD = range(2, 2 + 6 * 3, 3)
"""Six hard tasks in a row."""


def _rule(number: int) -> Rule:
    rule = make(13, number, with_rule=True).rule
    assert rule is not None
    return rule


def _run(number: int, method: Callable[[], Any]) -> Record:
    office = Office(13, 60, rules=True)
    task = next(task for task in office.tasks() if task.data["number"] == number)
    return asyncio.run(Agent(scripted(), method).run(office, task))


def test_each_kind_occurs_in_each_place() -> None:
    found = {(_rule(number).kind, _rule(number).place) for number in HARD}
    assert found == {(kind, place) for kind in ("payment", "file", "meeting") for place in PLACES}


@pytest.mark.parametrize("number", HARD)
def test_a_rule_stands_in_one_note_and_changes_only_what_is_wanted(number: int) -> None:
    plain, ruled = make(13, number), make(13, number, with_rule=True)
    rule = _rule(number)
    assert [title for title, text in ruled.world.notes.items() if rule.text in text] == [NOTES[rule.place]]
    assert rule.value in rule.text
    assert rule.value not in ruled.words
    assert (plain.world.mails, plain.world.files) == (ruled.world.mails, ruled.world.files)
    assert plain.world.wanted != ruled.world.wanted
    assert ("Read the note 'policy' before anything else." in ruled.words) == (rule.place == "policy")
    assert ruled.words.endswith("What my notes ask for holds until the last chore.")


@pytest.mark.parametrize("number", HARD)
def test_an_agent_that_sees_everything_keeps_the_rule(number: int) -> None:
    record = _run(number, Untouched)
    assert (record.score.success, record.score.details["rule"]["outcome"]) == (1, "kept")


class _Forgetting:
    """Sends everything but the sentence of the rule."""

    name = "forgetting"

    def __init__(self, text: str) -> None:
        self._text = text

    async def compress(self, messages: Any) -> Any:
        kept = [{**message, "content": str(message["content"]).replace(self._text, "")} for message in messages]
        return await Dropping(lambda _: frozenset()).compress(kept)


@pytest.mark.parametrize("number", HARD)
def test_an_agent_that_does_not_see_the_rule_breaks_it_and_fails(number: int) -> None:
    record = _run(number, lambda: _Forgetting(_rule(number).text))
    assert (record.score.success, record.score.details["rule"]["outcome"]) == (0, "broken")


def test_a_rule_is_not_reached_while_its_deed_is_not_done() -> None:
    for number in HARD:
        assignment = make(13, number, with_rule=True)
        assert _rule(number).outcome(assignment.world) == "not reached"


def test_only_hard_tasks_have_rules() -> None:
    tasks = benchmark(Options(seed=13, more={"tasks": "12", "rules": "true"})).tasks()
    assert [task.id for task in tasks] == [f"office-rules-13-{number:04d}" for number in (2, 5, 8, 11)]
    with pytest.raises(ConfigError, match="rules must be true or false"):
        benchmark(Options(more={"rules": "all"}))
