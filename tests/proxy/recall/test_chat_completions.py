"""Chat Completions as gateways speak it."""

import json
from typing import Any

import pytest

from focusctx.proxy.recall.rounds import turn_for
from focusctx.session.recall import TOOL
from proxy.recall.harness import RECALL, Play, Sent, seen, stream_of
from spoken import Say

DONE = b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = {"id": "c1", "created": 7, "model": "m", "object": "chat.completion.chunk", "choices": [choice], **fields}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def call(index: int | None = 0, name: str | None = TOOL, arguments: str | None = "", **fields: Any) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {**place, "function": {"name": name, "arguments": arguments}, **fields}


def asked(*events: bytes) -> tuple[bytes, list[Any]]:
    """What the agent was shown of a round that recalls, and what goes up after it."""
    turn = turn_for("chat_completions")
    shown = turn.feed(b"".join([*events, DONE]))
    ending = turn.end()
    assert ending.queries
    assert ending.rest == b""
    return shown, list(turn.answer([f"found {query}" for query in ending.queries]))


def test_a_name_comes_once_and_arguments_in_pieces() -> None:
    pieces = [
        chunk({"role": "assistant", "content": None, "tool_calls": [call(id="a", type="function")]}),
        chunk({"tool_calls": [call(name=None, arguments='{"query"', id="")]}),
        chunk({"tool_calls": [call(name="", arguments=':"s_1"}')]}),
        chunk({"tool_calls": [call(1, arguments='{"query":"s_2"}', id="b")]}),
        chunk({}, "tool_calls"),
    ]
    shown, messages = asked(*pieces)
    assert shown == b"", "the role came with the call"
    assert [each["id"] for each in messages[0]["tool_calls"]] == ["a", "b"]
    assert messages[1:] == [
        {"role": "tool", "tool_call_id": "a", "content": "found s_1"},
        {"role": "tool", "tool_call_id": "b", "content": "found s_2"},
    ]


def test_whole_calls_without_an_index_or_all_with_the_same() -> None:
    for index in (None, 0):
        first = call(index, arguments='{"query":"s_1"}', id="a", extra_content={"thought_signature": "x"})
        second = call(index, arguments='{"query":"s_2"}', id="b")
        _, messages = asked(chunk({"tool_calls": [first]}), chunk({"tool_calls": [second]}, "stop"))
        assert [each["id"] for each in messages[0]["tool_calls"]] == ["a", "b"]
        assert messages[0]["tool_calls"][0]["extra_content"] == {"thought_signature": "x"}, "kept with its call"


def test_a_call_without_an_id_or_with_broken_arguments_can_be_sent_back() -> None:
    _, messages = asked(chunk({"tool_calls": [call(arguments='{"query": "the tok')]}), chunk({}, "tool_calls"))
    sent = messages[0]["tool_calls"][0]
    assert json.loads(sent["function"]["arguments"]) == {"query": '{"query": "the tok'}
    assert sent["id"] == messages[1]["tool_call_id"] != ""


def test_reasoning_is_shown_and_goes_up_with_the_call() -> None:
    shown, messages = asked(
        chunk({"role": "assistant", "reasoning_content": "Hm. "}),
        chunk({"reasoning_content": "Yes.", "reasoning_details": [{"text": "a", "signature": "s"}]}),
        chunk({"content": "Let me see."}),
        chunk({"tool_calls": [call(id="a", arguments='{"query":"s_1"}')]}),
        chunk({}, "tool_calls"),
    )
    assert b"Hm. " in shown
    assert messages[0]["reasoning_content"] == "Hm. Yes."
    assert messages[0]["reasoning_details"] == [{"text": "a", "signature": "s"}]
    assert messages[0]["content"] == "Let me see."


def test_reasoning_in_one_chunk_with_the_call_goes_up_too() -> None:
    delta = {"content": "Wait.", "reasoning_content": "Hm.", "tool_calls": [call(id="a", arguments='{"query":"s_1"}')]}
    shown, messages = asked(chunk({"role": "assistant", **delta}, "tool_calls"))
    assert shown == b""
    assert messages[0]["reasoning_content"] == "Hm."
    assert messages[0]["content"] is None, "it was not shown: the model may say it again"


async def test_the_rounds_are_one_message() -> None:
    first = [
        chunk({"role": "assistant", "content": "", "reasoning_content": "Hm."}),
        chunk({"content": "One.", "reasoning_details": [{"id": 1}]}),
        chunk({"tool_calls": [call(id="a", arguments='{"query":"s_1"}')]}),
        chunk({}, "tool_calls", usage={"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}),
    ]
    later: Any = {"id": "c2", "created": 8}
    second = [
        chunk({"role": "assistant", "content": ""}, **later),
        chunk({"reasoning_content": "Aha.", "reasoning_details": [{"id": 2}]}, **later),
        chunk({"content": "Two"}, **later),
        chunk({"content": "."}, **later),
        chunk({}, "stop", **later, usage={"prompt_tokens": 20, "completion_tokens": 2, "total_tokens": 22}),
    ]
    played = await Play("chat_completions", [Sent(b"".join([*first, DONE])), Sent(b"".join([*second, DONE]))]).stream()
    agent = seen(played)
    assert (agent.id, agent.texts, agent.thoughts) == ("c1", ["One.\n\nTwo."], ["Hm.\n\nAha."])
    assert (agent.input_tokens, agent.output_tokens, agent.raw.usage.total_tokens) == (30, 3, 33)
    assert agent.raw.created == 7
    assert agent.raw.choices[0].message.reasoning_details == [{"id": 1}], "signed: of one round only"
    assert played.body.count(DONE) == 1
    assert played.body.count(b'"role"') == 1


@pytest.mark.parametrize("finish", ["length", "content_filter", None])
async def test_a_round_that_was_cut_off_is_not_asked_again(finish: str | None) -> None:
    calls = [call(0, "look", "{}", id="a", type="function"), call(1, arguments='{"query', id="b", type="function")]
    events = [
        chunk({"role": "assistant", "content": "Let me see."}),
        *(chunk({"tool_calls": [each]}) for each in calls),
        *([chunk({}, finish)] if finish else []),
    ]
    played = await Play("chat_completions", [Sent(b"".join([*events, DONE]))]).stream()
    assert played.asked == []
    chunks = [json.loads(line[6:]) for line in played.body.split(b"\n") if line.startswith(b"data: {")]
    assert chunks[1]["choices"][0]["delta"]["tool_calls"] == calls[:1]
    assert chunks[-1]["choices"][0]["finish_reason"] == finish
    assert TOOL.encode() not in played.body


def test_an_error_amid_calls_reaches_the_agent() -> None:
    turn = turn_for("chat_completions")
    error = b'data: {"error":{"message":"overloaded"}}\n\n'
    turn.feed(chunk({"role": "assistant", "tool_calls": [call(id="a")]}) + error)
    assert error in turn.end().rest


def test_several_choices_are_left_alone() -> None:
    both = stream_of(Say("", (RECALL,)), "chat_completions")
    stream = both.replace(DONE, b"") + both.replace(b'"choices":[{"index":0', b'"choices":[{"index":1')
    turn = turn_for("chat_completions")
    shown = turn.feed(stream)
    ending = turn.end()
    assert (shown + ending.rest, ending.queries) == (stream, ())


def test_a_refusal_is_part_of_what_was_said() -> None:
    shown, messages = asked(
        chunk({"role": "assistant", "refusal": "I will not."}),
        chunk({"tool_calls": [call(id="a", arguments='{"query":"s_1"}')]}, "tool_calls"),
    )
    assert b"I will not." in shown
    assert messages[0]["refusal"] == "I will not."


def test_null_calls_in_every_chunk_hold_nothing_back() -> None:
    stream = [
        chunk({"role": "assistant", "content": "a", "tool_calls": None}),
        chunk({"content": "b", "tool_calls": []}),
    ]
    turn = turn_for("chat_completions")
    assert [turn.feed(each) for each in stream] == stream
