"""Without a recall the agent gets the provider's bytes, whatever they are; and nothing a provider sends is an error."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.proxy.recall.rounds import turn_for
from focusctx.proxy.recall.sse import payload, split, with_payload
from focusctx.proxy.recall.turn import Turn
from focusctx.session.recall import TOOL
from helpers.thorough import examples
from proxy.recall.harness import FORMATS, OTHER, RECALL, cut, stream_of, whole_of
from spoken import Call, Say
from strategies import json_values

MENTIONS = Call("grep", {"pattern": f'"name": "{TOOL}" "tool_calls" content_block_start response.output_item.added'})
SAYS = st.builds(
    Say,
    st.sampled_from(["", "text", f"call {TOOL}, a tool_use in tool_calls", "naïve 🎉"]),
    st.lists(st.sampled_from([OTHER, MENTIONS]), max_size=3).map(tuple),
    st.sampled_from(["", "hm", f"should I {TOOL}?"]),
)
SIZES = st.lists(st.integers(1, 300), min_size=1, max_size=8)

every_format = pytest.mark.parametrize("format", FORMATS)


def shown(turn: Turn[Any], stream: bytes, sizes: list[int]) -> bytes:
    pieces = [turn.feed(chunk) for chunk in cut(stream, sizes)]
    ending = turn.end()
    assert ending.queries == ()
    return b"".join(pieces) + ending.rest


@every_format
@settings(deadline=None)
@given(say=SAYS, sizes=SIZES, crlf=st.booleans(), cut_at=st.none() | st.floats(0, 1))
def test_the_bytes_are_the_provider_s(
    format: str, say: Say, sizes: list[int], crlf: bool, cut_at: float | None
) -> None:
    stream = stream_of(say, format)
    if crlf:
        stream = stream.replace(b"\n", b"\r\n")
    if cut_at is not None:
        stream = stream[: int(len(stream) * cut_at)]
    assert shown(turn_for(format), stream, sizes) == stream


@every_format
@given(stream=st.binary(), sizes=SIZES)
def test_so_are_bytes_that_are_no_events(format: str, stream: bytes, sizes: list[int]) -> None:
    assert shown(turn_for(format), stream, sizes) == stream
    assert turn_for(format).whole(stream).rest == stream


@every_format
@given(say=SAYS)
def test_so_is_an_answer_that_is_not_streamed(format: str, say: Say) -> None:
    body = whole_of(say, format)
    assert turn_for(format).whole(body).rest == body


@every_format
def test_each_text_is_passed_on_with_the_piece_that_completes_it(format: str) -> None:
    stream = stream_of(Say("a longer text"), format)
    turn = turn_for(format)
    late = 0
    for place in range(len(stream)):
        late += 1
        late -= len(turn.feed(stream[place : place + 1]))
        begun = any(mark in stream[:place] for mark in (b'"delta":"', b'"text_delta"', b'"content":"a'))
        assert not begun or late <= max(map(len, split(stream)))
    assert turn.end().rest == b""


@every_format
def test_comments_and_unknown_events_pass(format: str) -> None:
    extra = b': processing\n\nevent: news\ndata: {"type":"news","n":1}\n\ndata: {broken\n\n'
    for say in (Say("text"), Say("", (OTHER,))):
        events = split(stream_of(say, format))
        stream = b"".join([events[0], extra, *events[1:-1], extra, events[-1]])
        assert shown(turn_for(format), stream, [1 << 20]) == stream


@every_format
def test_they_pass_in_a_later_round_too(format: str) -> None:
    turn = turn_for(format)
    turn.feed(stream_of(Say("text", (RECALL,)), format))
    assert turn.end().queries == ("s_7",)
    turn.answer(["found"])
    events = split(stream_of(Say("text", (OTHER,)), format, 2))
    news = b': processing\n\nevent: news\ndata: {"news":1}\n\ndata: {broken\n\n'
    body = turn.feed(b"".join([*events[:-1], news, events[-1]])) + turn.end().rest
    assert news in body


# Garbage


@st.composite
def damaged(draw: st.DrawFn, stream: bytes) -> bytes:
    """A stream in which events are missing, doubled or swapped, and values are not what they should be."""
    events = split(stream)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(events) - 1))
        action = draw(st.sampled_from(["drop", "double", "swap", "value", "value", "value"]))
        if action == "drop" and len(events) > 1:
            del events[place]
        elif action == "double":
            events.insert(place, events[place])
        elif action == "swap":
            other = draw(st.integers(0, len(events) - 1))
            events[place], events[other] = events[other], events[place]
        elif data := payload(events[place]):
            _damage(draw, data)
            events[place] = with_payload(events[place], data)
    return b"".join(events)


def _damage(draw: Callable[[st.SearchStrategy[Any]], Any], holder: Any) -> None:
    """Put something else in some place of a JSON value."""
    keys = list(holder) if isinstance(holder, dict) else range(len(holder))
    if not keys:
        return
    key = draw(st.sampled_from(keys))
    if isinstance(holder[key], dict | list) and holder[key] and draw(st.integers(0, 3)):
        _damage(draw, holder[key])
    elif isinstance(holder, dict) and draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = draw(json_values)


@every_format
@settings(deadline=None, max_examples=examples(150))
@given(data=st.data(), sizes=SIZES, last=st.booleans())
def test_no_stream_is_an_error(format: str, data: st.DataObject, sizes: list[int], last: bool) -> None:
    turn = turn_for(format)
    for number in range(1, 4):
        say = data.draw(st.builds(Say, st.sampled_from(["", "text"]), st.sampled_from([(RECALL,), (OTHER, RECALL)])))
        stream = data.draw(damaged(stream_of(say, format, number)))
        for chunk in cut(stream, sizes):
            turn.feed(chunk)
        ending = turn.end(last=last)
        if not ending.queries:
            break
        json.dumps(turn.answer(["found"] * len(ending.queries)))
    turn.fail(b"nonsense")


@every_format
@settings(deadline=None, max_examples=examples(150))
@given(data=st.data(), last=st.booleans())
def test_no_answer_is_an_error(format: str, data: st.DataObject, last: bool) -> None:
    turn = turn_for(format)
    for number in range(1, 4):
        answer = json.loads(whole_of(Say("text", (OTHER, RECALL), thinking="hm"), format, number))
        for _ in range(data.draw(st.integers(0, 3))):
            _damage(data.draw, answer)
        ending = turn.whole(json.dumps(answer).encode(), last=last)
        if not ending.queries:
            break
        json.dumps(turn.answer(["found"] * len(ending.queries)))
