"""Events are cut the same wherever the stream breaks, and nothing of it is lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.proxy.recall.sse import Splitter, event_of, payload, split, with_payload
from proxy.recall.harness import cut

PIECES = st.sampled_from(
    [b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b"data: ", b'data:{"a":1}', b": ping", b"event: x", b"id: 3", b"\xc3"]
)
STREAMS = st.lists(PIECES | st.binary(max_size=4), max_size=20).map(b"".join)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=6)


@given(STREAMS, SIZES)
def test_the_events_of_a_stream_are_the_stream(stream: bytes, sizes: list[int]) -> None:
    splitter = Splitter()
    events = [event for chunk in cut(stream, sizes) for event in splitter.feed(chunk)]
    assert b"".join(events) + splitter.rest() == stream
    assert splitter.rest() == b""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@given(sizes=SIZES)
def test_events_do_not_depend_on_where_the_stream_breaks(newline: str, sizes: list[int]) -> None:
    events = [": a comment\n\n", 'event: x\ndata: {"a":\ndata: 1}\n\n', "data: [DONE]\n\n", "\n", "data: é\n\n"]
    written = [event.replace("\n", newline).encode() for event in events]
    splitter = Splitter()
    found = [event for chunk in cut(b"".join(written), sizes) for event in splitter.feed(chunk)]
    assert found == [*written[:3], written[3] + written[4]]


def test_an_unfinished_event_is_kept_for_the_next_piece() -> None:
    splitter = Splitter()
    assert splitter.feed(b"data: 1\n\ndata") == [b"data: 1\n\n"]
    assert not splitter.passes(b"x\n\n")
    assert splitter.feed(b": 2\n") == []
    assert splitter.feed(b"\n") == [b"data: 2\n\n"]
    assert splitter.passes(b"x\n\n")
    assert not splitter.passes(b"x\n")
    assert split(b"data: 1\n\ndata: 2") == [b"data: 1\n\n", b"data: 2"]


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b'event: x\ndata: {"a": 1}\n\n', {"a": 1}),
        (b'data:{"a":\r\ndata: 1}\r\n\r\n', {"a": 1}),
        (b"data: [DONE]\n\n", None),
        (b"data: [1]\n\n", None),
        (b": comment\n\n", None),
        (b"event: ping\n\n", None),
        (b'data: {"a": "\xff"}\n\n', None),
        (b"data: " + b"[" * 100_000 + b"\n\n", None),
    ],
)
def test_what_an_event_carries(event: bytes, data: object) -> None:
    assert payload(event) == data


def test_other_data_in_the_same_event() -> None:
    changed = with_payload(b'event: x\r\nid: 7\r\ndata: {"a":\r\ndata: 1}\r\n\r\n', {"b": "\ud83d"})
    assert changed == b'event: x\r\nid: 7\r\ndata: {"b":"\\ud83d"}\r\n\r\n'
    assert event_of({"type": "ping"}, named=True) == b'event: ping\ndata: {"type":"ping"}\n\n'
    assert event_of({"a": 1}, named=False) == b'data: {"a":1}\n\n'
    assert json.loads(with_payload(b"data: {}\n\n", {"é": 1})[6:]) == {"é": 1}
