"""Values print as one short line, whatever they hold."""

from typing import Any

import pytest

from focusctx import Focus, History, Message, Prompt, Result, Span
from helpers.histories import run, step
from helpers.session_parts import cites

LONG = [*run(0), *(message for number in range(1, 301) for message in step(number, f"line {number}\n" * 300))]


def compressed(messages: list[Message]) -> Result:
    return Focus(lambda prompt: cites(2, 7), budget=1000, levels=False, target=None).compress(messages)


@pytest.fixture(scope="module")
def result() -> Result:
    return compressed(LONG)


def test_a_result_says_how_much_was_left(result: Result) -> None:
    assert repr(result).startswith("Result(compressed=True, tokens=")
    assert "kept=[2, 7, 300], dropped=[1, 3, 4, 5, 6, 8, 9, 10, … 297 spans])" in repr(result)


def test_a_result_says_why_nothing_happened() -> None:
    def broken(prompt: Any) -> str:
        raise RuntimeError("no power " * 50)

    assert repr(Focus(broken, budget=10**9).compress(LONG)).endswith("failure=None)")
    failed = repr(Focus(broken, budget=1000).compress(LONG))
    assert "failure='" in failed
    assert "no power" in failed or "draft" in failed


def test_what_a_result_holds_is_short_too(result: Result) -> None:
    assert result.history is not None
    things = [result, result.history, *result.history.spans, *result.sketches]
    assert max(len(repr(thing)) for thing in things) < 200
    assert not any("\n" in repr(thing) for thing in things)
    assert repr(result.sketches[0]) == "Sketch(steps=1, cited=[2, 7], rescued=[])"
    assert repr(result.history).startswith("History(goal='Do the task.', spans=300, tokens=")


def test_a_span_shows_its_number_and_action() -> None:
    assert repr(Span(3, action="look({})", observation="x" * 10**6, tokens=9)) == "Span(3, action='look({})', tokens=9)"
    assert len(repr(History("x" * 10**6, ()))) < 150


def test_a_prompt_shows_the_history_it_asks_about() -> None:
    prompt = Prompt("system " * 1000, "user " * 1000, History("A goal", ()))
    assert repr(prompt) == "Prompt(history=History(goal='A goal', spans=0, tokens=0), temperature=0.7, seed=42)"


def test_a_focus_shows_its_draft_and_budget() -> None:
    assert repr(Focus("offline", budget=1000)) == "Focus('offline', budget=1000)"
