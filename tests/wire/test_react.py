"""Which texts are actions, and which have a form of tool output; test_text_agents reads whole conversations."""

import time

import pytest

from focusctx.wire.react import TextRun, asks_for_text_actions, form_of, split_turn
from strategies import ACTIONS, OBSERVATIONS


def is_tool_output(text: str) -> bool:
    """True for a form that people do not write; "Output:" is one that they do."""
    form = form_of(text)
    return form is not None and not form.startswith("label:")


@pytest.mark.parametrize(
    "task",
    [
        *ACTIONS,
        "Reply with\n```mswea_bash_command\nls\n```",
        "Use this format:\nThought: …\nAction: the tool\nAction Input: its input",
        "Call tools as <function=look>…</function>",
        'Write <invoke name="look">',
        "Put code into <execute_ipython> tags",
    ],
)
def test_tasks_that_ask_for_actions_in_text(task: str) -> None:
    assert asks_for_text_actions(task)


@pytest.mark.parametrize(
    "task", ["You help.", "Use `ls`.", "Take action: now", "<b>bold</b>", "A ``` that never ends\n", ""]
)
def test_tasks_that_do_not(task: str) -> None:
    assert not asks_for_text_actions(task)


@pytest.mark.parametrize("shape", OBSERVATIONS)
@pytest.mark.parametrize("inside", ["", "a.py", "two\nlines", "</output> <output>", "```\ncode\n```"])
def test_shapes_of_tool_output(shape: str, inside: str) -> None:
    assert is_tool_output(shape.replace("{}", inside))
    assert is_tool_output(f"\n{shape.replace('{}', inside)}\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok",
        "a.py",
        "Great observation: thanks",
        "I ran it. Observation: it fails",
        "Output: it fails",
        "Output:\n```\nit fails\n```",
        "Result: ```3```",
        "<output>3</output> is what I got",
        "See <output>3</output>",
        "<output>3</stdout>",
        "<returncode>0</returncode> is good, is it not?",
        "<returncode>zero</returncode>",
        "<b>Stop</b>",
        "```\nls\n```",
        "exitcode: 0",
    ],
)
def test_human_words_that_resemble_it(text: str) -> None:
    assert not is_tool_output(text)


@pytest.mark.parametrize(
    ("turn", "thought", "action"),
    [
        ("I look.\n```bash\nls\n```\nDone.", "I look.", "```bash\nls\n```\nDone."),
        ("Thought: hm\nAction: look[x]", "Thought: hm", "Action: look[x]"),
        ("<tool_call>{}</tool_call>", "", "<tool_call>{}</tool_call>"),
        ("Just words.", "Just words.", ""),
    ],
)
def test_a_turn_is_thought_then_action(turn: str, thought: str, action: str) -> None:
    assert split_turn(turn) == (thought, action)


@pytest.mark.parametrize(
    "text",
    [
        "<returncode>0</returncode>" + "<a></a>" * 26 + "x",
        "<returncode>0</returncode>" + " " * 20_000 + "x",
        "Observation" + " " * 20_000 + "x",
        "<output>" + "</output" * 20_000,
        "<code " * 20_000,
        "```\n" + "``" * 20_000,
        "> " * 20_000 + "Action",
        "Thought " * 20_000,
        "{ " * 20_000,
        "result of " * 20_000,
        "a " * 100_000 + "\n" * 20_000,
        "x = 1\n" * 100_000,
        "(Open file: x)\n" * 20_000,
    ],
)
def test_no_text_makes_the_search_slow(text: str) -> None:
    """Observations are anyone's text: one that is written to be slow to read must not stop the agent."""
    started = time.process_time()
    _, action = split_turn(text)
    TextRun().with_task(text).read(action or "```\nls\n```", text)
    assert time.process_time() - started < 2
