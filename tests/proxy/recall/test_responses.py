"""Responses: items of all kinds, their events, and ids that providers and clients build on."""

import json
from typing import Any

import pytest

from focusctx.invariants import violations
from focusctx.proxy.recall.rounds import turn_for
from focusctx.session.recall import TOOL
from proxy.recall.harness import OTHER, RECALL, Play, Sent, play, seen, stream_of
from spoken import Json, Say

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
MORE = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "sealed too"}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": TOOL, "arguments": '{"query":"s_1"}'}
LOOK = {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "look", "arguments": "{}"}
SHELL = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c3", "name": "shell", "input": "ls"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}


def stream(*items: Json, id: str = "resp_1", end: str | None = "completed", output: bool = True) -> bytes:
    response: Json = {"id": id, "object": "response", "status": "in_progress", "model": "m", "output": [], "tools": []}
    events: list[Json] = [{"type": f"response.{name}", "response": response} for name in ("created", "in_progress")]
    for index, item in enumerate(items):
        opened = {**item, **({"encrypted_content": "half"} if "encrypted_content" in item else {})}
        events.append({"type": "response.output_item.added", "output_index": index, "item": opened})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    if end:
        usage = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
        done = {**response, "status": end, "usage": usage, "output": list(items) if output else None}
        events.append({"type": f"response.{end}", "response": done})
    return b"".join(
        f"event: {data['type']}\ndata: {json.dumps({**data, 'sequence_number': number})}\n\n".encode()
        for number, data in enumerate(events)
    )


def asked(*items: Json) -> list[Any]:
    """The items of a round in the next one, without the outputs."""
    turn = turn_for("responses")
    turn.feed(stream(*items))
    ending = turn.end()
    sent = turn.answer([f"found {query}" for query in ending.queries])
    assert violations(sent, "responses") == []
    outputs = sent[-len(ending.queries) :]
    assert [item["output"] for item in outputs] == [f"found {query}" for query in ending.queries]
    return list(sent[: -len(ending.queries)])


def without_id(item: Json) -> Json:
    return {key: value for key, value in item.items() if key != "id"}


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ([REASONING, CALL], [REASONING, CALL]),
        ([REASONING, MESSAGE, CALL], [REASONING, MESSAGE, without_id(CALL)]),
        ([REASONING, MESSAGE, MORE, CALL], [REASONING, MESSAGE, MORE, CALL]),
        ([REASONING, CALL, LOOK], [REASONING, CALL]),
        # Its reasoning named the other call. Without its id the provider does not ask for it.
        ([REASONING, LOOK, CALL], [without_id(CALL)]),
        ([REASONING, SHELL, MORE, CALL], [MORE, CALL]),
        ([REASONING, SEARCH, CALL], [REASONING, SEARCH, without_id(CALL)]),
    ],
)
def test_reasoning_stays_with_what_it_led_to(said: list[Json], sent: list[Json]) -> None:
    assert asked(*said) == sent


def test_what_the_provider_runs_itself_is_shown_at_once_and_other_calls_are_not() -> None:
    turn = turn_for("responses")
    assert b"web_search_call" in turn.feed(stream(SEARCH, end=None))
    for call in (LOOK, SHELL, {"type": "mcp_approval_request", "id": "a", "name": "x"}):
        assert turn_for("responses").feed(stream(call, end=None)) == b""


async def test_a_round_of_which_nothing_is_shown_leaves_the_next_its_own_id() -> None:
    rounds = [stream(REASONING, CALL), stream(MORE, MESSAGE, LOOK, id="resp_2")]
    played = await Play("responses", [Sent(each) for each in rounds]).stream()
    before, after = played.body.split(b"event: response.completed")
    theirs, _ = rounds[1].split(b"event: response.completed")
    assert before == theirs, "all but the sums is the second round's own"
    assert b'"input_tokens":20' in after
    assert seen(played).id == "resp_2"
    assert played.turn.alias is None


async def test_a_client_that_saw_the_first_id_keeps_it_and_the_real_one_is_told() -> None:
    rounds = [Say("One.", (RECALL,)), Say("Two.", (RECALL,)), Say("Three.", (OTHER,))]
    played = await play("responses", *rounds)
    assert seen(played).id == "resp_000001"
    assert played.turn.alias == ("resp_000001", "resp_000003")


async def test_an_end_without_its_output_stays_one() -> None:
    rounds = [stream(MESSAGE, CALL, output=False), stream({**MESSAGE, "id": "msg_2"}, LOOK, id="resp_2", output=False)]
    played = await Play("responses", [Sent(each) for each in rounds]).stream()
    assert seen(played).texts == ["Let me see.", "Let me see."]


@pytest.mark.parametrize("end", ["incomplete", "failed", None])
def test_a_round_that_was_cut_off_is_not_asked_again(end: str | None) -> None:
    turn = turn_for("responses")
    shown = turn.feed(stream(MESSAGE, LOOK, MORE, CALL, SHELL, end=end))
    ending = turn.end()
    assert ending.queries == ()
    events = [json.loads(line[6:]) for line in (shown + ending.rest).split(b"\n") if line.startswith(b"data: ")]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    added = [(event["output_index"], event["item"]["type"]) for event in events if event["type"].endswith("item.added")]
    assert added == [(0, "message"), (1, "function_call"), (2, "custom_tool_call")]
    if end:
        assert [item["type"] for item in events[-1]["response"]["output"]] == [kind for _, kind in added]


def test_a_failed_round_ends_as_a_failed_response() -> None:
    turn = turn_for("responses")
    turn.feed(stream(REASONING, CALL))
    turn.end()
    turn.answer(["found"])
    body = turn.fail(b'{"error":{"message":"slow down","code":"rate_limit_exceeded"}}')
    created, failed = (json.loads(line[6:]) for line in body.split(b"\n") if line.startswith(b"data: "))
    assert [created["type"], failed["type"]] == ["response.created", "response.failed"]
    assert [created["sequence_number"], failed["sequence_number"]] == [0, 1]
    assert created["response"]["id"] == failed["response"]["id"]
    assert failed["response"]["error"] == {"code": "rate_limit_exceeded", "message": "slow down"}
    assert failed["response"]["status"] == "failed"


def test_it_fails_where_the_agent_is() -> None:
    """Text of a first round was shown, and some of a second one."""
    turn = turn_for("responses")
    turn.feed(stream(MESSAGE, CALL))
    turn.end()
    turn.answer(["found"])
    shown = turn.feed(stream({**MESSAGE, "id": "msg_2"}, id="resp_2", end=None))
    last = [json.loads(line[6:]) for line in shown.split(b"\n") if line.startswith(b"data: ")][-1]
    (failed,) = (json.loads(line[6:]) for line in turn.fail(b"").split(b"\n") if line.startswith(b"data: "))
    assert failed["type"] == "response.failed"
    assert failed["sequence_number"] == last["sequence_number"] + 1
    assert failed["response"]["id"] == "resp_1"
    assert [item["id"] for item in failed["response"]["output"]] == ["msg_1", "msg_2"]


def test_the_raw_events_can_be_iterated_too() -> None:
    """`create(stream=True)` checks less than `stream`; nothing in it may be missing all the same."""
    turn = turn_for("responses")
    body = turn.feed(stream_of(Say("One.", (RECALL,)), "responses")) + turn.end().rest
    turn.answer(["found"])
    body += turn.feed(stream_of(Say("Two."), "responses", 2)) + turn.end().rest
    kinds = [json.loads(line[6:])["type"] for line in body.split(b"\n") if line.startswith(b"data: ")]
    assert kinds.count("response.created") == kinds.count("response.completed") == 1
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 2


def test_a_stream_out_of_order_is_not_asked_again() -> None:
    """The end of the call stands before its beginning, so the agent has seen it: nobody could pair it any more."""
    events = [part + b"\n\n" for part in stream(MESSAGE, CALL).split(b"\n\n")[:-1]]
    call_ends = next(place for place, each in enumerate(events) if b"item.done" in each and b"fc_1" in each)
    events.insert(3, events.pop(call_ends))
    turn = turn_for("responses")
    assert b"fc_1" in turn.feed(b"".join(events))
    assert turn.end().queries == ()
