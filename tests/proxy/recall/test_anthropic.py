"""Anthropic Messages: blocks of all kinds, and thinking as the API wants it."""

import json
from typing import Any

import pytest

from focusctx.invariants import violations
from focusctx.proxy.recall.rounds import turn_for
from focusctx.session.recall import TOOL
from proxy.recall.harness import Play, Sent, seen
from spoken import Json

THOUGHT: Json = {"type": "thinking", "thinking": "Hm.", "signature": "s1"}
AGAIN: Json = {"type": "thinking", "thinking": "Hm!", "signature": "s2"}
HIDDEN: Json = {"type": "redacted_thinking", "data": "xyz"}
TEXT: Json = {"type": "text", "text": "Let me see."}
RECALL: Json = {"type": "tool_use", "id": "t1", "name": TOOL, "input": {"query": "s_1"}}
OTHER: Json = {"type": "tool_use", "id": "t2", "name": "look", "input": {"path": "a"}}


def event(data: Json) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def stream(*blocks: Json, stop: str | None = "tool_use", id: str = "m1") -> bytes:
    """The blocks as the API streams them."""
    usage = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5}
    message = {"id": id, "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[Json] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(blocks):
        opened, deltas = dict(block), []
        for field, delta in (("text", "text_delta"), ("thinking", "thinking_delta"), ("signature", "signature_delta")):
            if field in block:
                opened[field] = ""
                deltas.append({"type": delta, field: block[field]})
        if "input" in block:
            opened["input"] = {}
            written = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
            deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in ("", written[:3], written[3:])]
        for citation in opened.pop("citations", None) or []:
            deltas.append({"type": "citations_delta", "citation": citation})
        events.append({"type": "content_block_start", "index": index, "content_block": opened})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    if stop:
        events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}})
        events.append({"type": "message_stop"})
    return b"".join(map(event, events))


def asked(*blocks: Json) -> list[Json]:
    """The assistant's blocks in the next round."""
    turn = turn_for("anthropic")
    turn.feed(stream(*blocks))
    ending = turn.end()
    messages = turn.answer([f"found {query}" for query in ending.queries])
    assert violations(messages, "anthropic") == []
    assert [block["content"] for block in messages[1]["content"]] == [f"found {query}" for query in ending.queries]
    content: list[Json] = messages[0]["content"]
    return content


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ([THOUGHT, RECALL], [THOUGHT, RECALL]),
        ([THOUGHT, HIDDEN, RECALL], [THOUGHT, HIDDEN, RECALL]),
        ([THOUGHT, TEXT, RECALL], [THOUGHT, TEXT, RECALL]),
        ([THOUGHT, OTHER, RECALL], [THOUGHT, RECALL]),
        ([THOUGHT, RECALL, OTHER], [THOUGHT, RECALL]),
        # The API refuses thinking blocks side by side that were apart.
        ([THOUGHT, OTHER, AGAIN, RECALL], [AGAIN, RECALL]),
        ([THOUGHT, RECALL, AGAIN, OTHER], [THOUGHT, RECALL]),
        ([THOUGHT, TEXT, AGAIN, RECALL], [THOUGHT, TEXT, AGAIN, RECALL]),
        # It writes empty texts and does not take them back.
        ([{"type": "text", "text": "\n"}, RECALL], [RECALL]),
    ],
)
def test_thinking_goes_up_as_it_came(said: list[Json], sent: list[Json]) -> None:
    assert asked(*said) == sent


def test_what_the_provider_ran_itself_is_shown_and_goes_up() -> None:
    use = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"query": "x"}}
    result = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": [{"type": "web_search_result"}]}
    cited = {"type": "text", "text": "As they say.", "citations": [{"type": "char_location", "cited_text": "y"}]}
    turn = turn_for("anthropic")
    events = stream(use, result, cited, RECALL)
    shown = turn.feed(events)
    assert b"web_search_tool_result" in shown
    assert b"As they say." in shown
    assert asked(use, result, cited, RECALL) == [use, result, cited, RECALL]


def test_input_that_is_no_json_is_sent_as_some() -> None:
    assert asked({**RECALL, "input": '{"query": "the tok'})[0]["input"] == {"query": '{"query": "the tok'}
    assert asked({**RECALL, "input": ""})[0]["input"] == {}


async def test_thinking_of_one_round_only_is_shown() -> None:
    rounds = [
        stream(THOUGHT, TEXT, RECALL),
        stream(AGAIN, HIDDEN, TEXT, RECALL, id="m2"),
        stream(AGAIN, TEXT, AGAIN, OTHER, id="m3"),
    ]
    played = await Play("anthropic", [Sent(each) for each in rounds]).stream()
    agent = seen(played)
    assert [block.type for block in agent.raw.content] == ["thinking", "text", "text", "text", "tool_use"]
    assert agent.id == "m1"
    assert played.body.count(b"event: message_start") == played.body.count(b"event: message_stop") == 1
    assert agent.raw.usage.input_tokens == 30
    assert agent.raw.usage.cache_read_input_tokens == 15
    assert agent.raw.usage.output_tokens == 27
    second = played.asked[1][0][2]["content"]
    assert second == [AGAIN, HIDDEN, TEXT, RECALL], "it goes up all the same"


async def test_a_round_that_only_thinks_and_recalls_hands_over_to_the_next() -> None:
    rounds = [stream(THOUGHT, RECALL), stream(AGAIN, TEXT, OTHER, id="m2")]
    played = await Play("anthropic", [Sent(each) for each in rounds]).stream()
    parts = played.body.split(b"event: message_delta")
    assert parts[0] == rounds[1].split(b"event: message_delta")[0], "all but the sums is the second round's own"
    assert seen(played).id == "m2"


@pytest.mark.parametrize(
    ("stop", "kept"),
    [("max_tokens", ["text", "tool_use"]), ("refusal", ["text", "tool_use"]), (None, ["text", "tool_use"])],
)
async def test_a_round_that_was_cut_off_is_not_asked_again(stop: str | None, kept: list[str]) -> None:
    played = await Play("anthropic", [Sent(stream(TEXT, OTHER, AGAIN, {**RECALL, "input": '{"q'}, stop=stop))]).stream()
    assert played.asked == []
    agent = seen(played)
    assert [block.type for block in agent.raw.content] == kept, "nor is thinking left without what it led to"
    assert agent.finish == stop
    assert TOOL.encode() not in played.body


def test_thinking_waits_for_what_follows_and_is_then_shown_at_once() -> None:
    events = [part + b"\n\n" for part in stream(THOUGHT, TEXT, stop=None).split(b"\n\n")[:-1]]
    turn = turn_for("anthropic")
    begun = next(place for place, each in enumerate(events) if b'"text"' in each)
    assert [turn.feed(each) for each in events[:begun]] == [b""] * begun
    assert turn.feed(events[begun]) == b"".join(events[: begun + 1])
    assert [turn.feed(each) for each in events[begun + 1 :]] == events[begun + 1 :]


def test_the_end_of_a_failed_stream_is_the_api_s_own() -> None:
    refusal: Any = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "r"}
    assert turn_for("anthropic").fail(json.dumps(refusal).encode()) == (
        b"event: error\ndata: " + json.dumps(refusal, separators=(",", ":")).encode() + b"\n\n"
    )
    assert b'"api_error"' in turn_for("anthropic").fail(b"<html>")
