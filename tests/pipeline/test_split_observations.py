"""The two readings of a user message: words of a person, or what an action brought back."""

from typing import Any

import pytest

from helpers.histories import call
from pipeline.reading import FORMATS, RULES, read
from strategies import Json

PLAIN = {"role": "system", "content": "You help."}
ACTS = {"role": "assistant", "content": "I look.\n```bash\nls\n```"}
TALKS = {"role": "assistant", "content": "May I look?"}
OUTPUT = "<returncode>0</returncode>\n<output>\na.py\n</output>"


@pytest.mark.parametrize(
    ("system", "turn", "answer", "observed"),
    [
        (RULES, ACTS, OUTPUT, True),
        (RULES, ACTS, "Observation: a.py", True),
        # One of the three signs is missing.
        (PLAIN, ACTS, OUTPUT, False),
        (RULES, TALKS, OUTPUT, False),
        (RULES, ACTS, "a.py", False),
        # A person speaks, perhaps of outputs.
        (RULES, ACTS, "Stop!", False),
        (RULES, ACTS, f"{OUTPUT}\nThis is what I get, too. What now?", False),
        (RULES, ACTS, "My observation: it is slow", False),
        (RULES, ACTS, "The output should be a list", False),
        (RULES, ACTS, "Output:\n```\nTraceback\n```", False),
        (RULES, ACTS, "```\nls: no such file\n```", False),
    ],
)
def test_auto_takes_a_user_message_for_an_observation_only_on_three_signs(
    system: Json, turn: Json, answer: str, observed: bool
) -> None:
    messages = [system, {"role": "user", "content": "task"}, turn, {"role": "user", "content": answer}]
    for name in (None, *FORMATS):
        history = read(messages, format=name)
        assert history.owners == (0, 0, 1, 1 if observed else 0)
        assert len(history.user_turns) == (1 if observed else 2)


def test_the_task_itself_may_show_how_to_act() -> None:
    task = {"role": "user", "content": f"task\n{RULES['content']}"}
    assert read([task, ACTS, {"role": "user", "content": OUTPUT}]).owners == (0, 1, 1)


def test_code_in_later_words_does_not_turn_talk_into_an_agent_run() -> None:
    """Else the reading would change once the steps before those words are dropped."""
    pasted = {"role": "user", "content": "look:\n```bash\nls\n```"}
    messages = [{"role": "user", "content": "hi"}, TALKS, pasted, ACTS, {"role": "user", "content": OUTPUT}]
    assert read(messages).owners == (0, 1, 0, 2, 0)
    assert read([messages[0], *messages[2:]]).owners == (0, 0, 1, 0)


def test_a_second_answer_in_a_row_is_the_users() -> None:
    twice = [{"role": "user", "content": OUTPUT}, {"role": "user", "content": OUTPUT}]
    assert read([RULES, ACTS, *twice]).owners == (0, 1, 1, 0)


def test_never_always_and_a_function_of_ones_own() -> None:
    messages = [RULES, ACTS, {"role": "user", "content": OUTPUT}, TALKS, {"role": "user", "content": "yes"}]
    assert read(messages, observations="never").owners == (0, 1, 0, 2, 0)
    assert read(messages, observations="always").owners == (0, 1, 1, 2, 2)
    asked: list[tuple[Any, Any]] = []

    def rule(message: Any, before: Any) -> bool:
        asked.append((message, before))
        return message["content"] == "yes"

    assert read(messages, observations=rule).owners == (0, 1, 0, 2, 2)
    assert [(a is messages[2] or a is messages[4], b is ACTS or b is TALKS) for a, b in asked] == [(True, True)] * 2


def test_always_still_leaves_words_that_interrupt_a_tool_call() -> None:
    messages = [{"role": "assistant", "tool_calls": [call(1)]}, {"role": "user", "content": "wait"}]
    assert read(messages, observations="always").owners == (1, 0)
