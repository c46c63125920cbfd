"""Which texts are actions, and which are tool output; what they mean together stands in test_split."""

import time

import pytest

from focusctx.wire.react import asks_for_text_actions, looks_like_tool_output, split_turn
from strategies import ACTIONS, OBSERVATIONS


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
    assert looks_like_tool_output(shape.replace("{}", inside))
    assert looks_like_tool_output(f"\n{shape.replace('{}', inside)}\n")


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
    assert not looks_like_tool_output(text)


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
    ],
)
def test_no_text_makes_the_search_slow(text: str) -> None:
    """Observations are anyone's text: one that is written to be slow to read must not stop the agent."""
    started = time.process_time()
    looks_like_tool_output(text)
    split_turn(text)
    assert time.process_time() - started < 2
