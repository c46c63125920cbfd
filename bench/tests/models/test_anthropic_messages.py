"""Any history of the loop in Anthropic's words: legal there, and the same when read back."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from focusctx.invariants import violations
from focusctx.types import Message
from focusctx_bench.models.served import message, request

words = st.text(max_size=12)
arguments = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4) | st.none(), max_size=2)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """As the loop makes them: a system prompt or none, the task, then steps with calls or words."""
    found: list[Message] = [{"role": "system", "content": draw(words)}] if draw(st.booleans()) else []
    found.append({"role": "user", "content": draw(st.text(min_size=1, max_size=12))})
    for step in range(draw(st.integers(0, 6))):
        calls = [
            {
                "id": f"call_{step}_{number}",
                "type": "function",
                "function": {"name": "act", "arguments": json.dumps(draw(arguments), ensure_ascii=False)},
            }
            for number in range(draw(st.integers(0, 3)))
        ]
        said = draw(words)
        if not calls:
            found += [{"role": "assistant", "content": said}, {"role": "user", "content": draw(words)}]
            continue
        found.append({"role": "assistant", "content": said or None, "tool_calls": calls})
        found += [{"role": "tool", "tool_call_id": call["id"], "content": draw(words)} for call in calls]
    return found


@given(histories())
def test_it_is_legal_there(history: list[Message]) -> None:
    body = request(history, [])
    assert not violations(body["messages"], "anthropic")
    roles = [turn["role"] for turn in body["messages"]]
    assert roles[0] == "user"
    assert all(one != other for one, other in pairwise(roles))
    blocks = [block for turn in body["messages"] for block in turn["content"]]
    assert all(block["text"] for block in blocks if block["type"] == "text")
    assert sum("cache_control" in block for block in [*blocks, *body.get("system", [])]) <= 2


@given(histories())
def test_turns_read_back_are_the_same(history: list[Message]) -> None:
    turns = [turn["content"] for turn in request(history, [])["messages"] if turn["role"] == "assistant"]
    ours = [message for message in history if message["role"] == "assistant"]
    assert [_plain(message(content)) for content in turns] == [_plain(turn) for turn in ours]


def _plain(turn: Message) -> tuple[str, Sequence[Any]]:
    said = turn["content"] or ""
    return "" if said == "(nothing said)" else said, turn.get("tool_calls", [])


@given(histories(), st.integers(0, 5))
def test_the_words_before_a_step_do_not_change_with_the_next(history: list[Message], more: int) -> None:
    """So that the provider's cache holds: only the mark moves."""
    longer = [*history, {"role": "assistant", "content": "go on"}, {"role": "user", "content": "yes " * (more + 1)}]
    short, long = _unmarked(request(history, [])), _unmarked(request(longer, []))
    assert short["messages"] == long["messages"][: len(short["messages"])]


def _unmarked(body: dict[str, Any]) -> Any:
    return json.loads(json.dumps(body), object_hook=lambda one: {k: v for k, v in one.items() if k != "cache_control"})


def test_thinking_goes_back_untouched() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "signed"}
    turn = message(
        [thinking, {"type": "text", "text": "So."}, {"type": "tool_use", "id": "t", "name": "act", "input": {}}]
    )
    assert turn["thinking_blocks"] == [thinking]
    result: Message = {"role": "tool", "tool_call_id": "t", "content": "done"}
    body = request([{"role": "user", "content": "go"}, turn, result], [])
    assert body["messages"][1]["content"][0] == thinking
