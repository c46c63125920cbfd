"""A shortened step for readers: the original to the letter, and exactly what the agent sees of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx import Focus
from focusctx.config import FocusConfig
from focusctx.drafts import ScriptedDraft
from focusctx.pipeline.excerpt import blocks_of, shown_of
from focusctx.pipeline.outline import outline, shortened
from focusctx.pipeline.split import read_history
from focusctx.wire import wire_named
from helpers import histories

ORDERS = json.dumps(
    [{"order_id": f"#W{n}", "items": ["lamp"] * 9, "notes": f"left at door {n} " * 6} for n in range(9)]
)
LOG = "".join(f"line {number}: all quiet in the eastern wing\n" for number in range(60))


def step(*results):
    calls = [histories.call(number, name="get_order", arguments=f'{{"n": {number}}}') for number in range(len(results))]
    answers = [
        {"role": "tool", "tool_call_id": f"call_{number}", "content": result} for number, result in enumerate(results)
    ]
    return [{"role": "assistant", "content": "I look at it.", "tool_calls": calls}, *answers]


def span_of(messages):
    return read_history([{"role": "user", "content": "Go."}, *messages], FocusConfig(), len).spans[0]


def seen(stretches):
    return "".join(mark or text for text, mark in stretches)


@given(st.sets(st.integers(1, 30)), st.sampled_from([ORDERS, LOG, LOG + ORDERS, "x " * 2000]))
def test_every_word_is_there_and_the_marks_are_the_agents(numbers, result):
    span = span_of(step(result))
    parts = frozenset(numbers)
    blocks = {block.name: block.stretches for block in blocks_of(span, "chat_completions", parts)}
    assert "".join(text for text, _ in blocks["observation"]) == result
    _, answer = shortened(span, wire_named("chat_completions"), parts)
    assert seen(blocks["observation"]) == answer["content"]


def test_a_whole_step_has_no_marks():
    blocks = blocks_of(span_of(step(LOG)), "chat_completions", None)
    assert [(block.name, len(block.stretches), block.stretches[0].mark) for block in blocks] == [
        ("thought", 1, ""),
        ("action", 1, ""),
        ("observation", 1, ""),
    ]


def test_calls_that_are_left_out_open_to_their_results():
    span = span_of(step(LOG, ORDERS, "nothing here"))
    record = outline(span, "chat_completions", len).record
    blocks = {block.name: block.stretches for block in blocks_of(span, "chat_completions", record)}
    mark = blocks["action"][-1]
    assert mark.mark == "[… 2 more calls left out: get_order ×2 (1, 2)]"
    assert ORDERS in mark.text
    assert "nothing here" in mark.text
    assert '"n": 0' in blocks["action"][0].text
    assert LOG not in seen(blocks["observation"])


def test_a_long_argument_opens_too():
    body = "".join(f"def number_{number}(): return {number}\n" for number in range(60))
    call = histories.call(1, name="write_file", arguments=json.dumps({"path": "a.py", "body": body}))
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "written"},
    ]
    blocks = {block.name: block.stretches for block in blocks_of(span_of(messages), "chat_completions", frozenset())}
    argument = blocks["long argument of write_file"]
    assert "".join(text for text, _ in argument) == body
    assert "left out]" in seen(argument)
    assert "left out]" in blocks["action"][0].text


@pytest.mark.parametrize("saved", [False, True])
def test_the_parts_of_an_event(saved):
    from focusctx import Result

    messages = [{"role": "user", "content": "Go."}, *step(LOG, ORDERS), *histories.step(2), *histories.step(3)]
    result = Focus(ScriptedDraft(["Step: x | Depends on: [s_1.2]"]), budget=0, target=600).compress(messages)
    if saved:
        result = Result.from_json(result.to_json())
    history = result.history
    fates = {decision.index: decision.fate for decision in result.decisions}
    assert "excerpt" in fates.values()
    sent = [message["content"] for message in result.messages]
    for span in history.spans:
        blocks = shown_of(result, span.index)
        is_cut = any(mark for block in blocks for _, mark in block.stretches)
        assert is_cut == (fates[span.index] in ("excerpt", "record"))
        if is_cut:
            assert all(seen(block.stretches) in sent for block in blocks if block.name.startswith("observation"))
    assert shown_of(result, 99) is None


def test_a_line_about_steps_that_are_gone_is_behind_the_last_result():
    messages = [{"role": "user", "content": "Go."}, *step(LOG)]
    messages += [one for number in range(2, 6) for one in histories.step(number, LOG)]
    result = Focus(ScriptedDraft(["Step: x | Depends on: [s_1.2]"]), budget=0, target=760).compress(messages)
    assert result.dropped
    (index,) = result.shortened
    (result_block,) = [block for block in shown_of(result, index) if block.name == "observation"]
    assert f"{len(result.dropped)} later steps left out: look" in result_block.stretches[-1].mark
    assert seen(result_block.stretches) in [message["content"] for message in result.messages]
    assert "".join(text for text, _ in result_block.stretches) == LOG
