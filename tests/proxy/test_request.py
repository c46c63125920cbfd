"""Reading a body and putting it together again: from the very bytes it came in, or not at all."""

import json
import random
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx import Focus
from focusctx.proxy import request as module
from focusctx.proxy.request import (
    Decoded,
    Request,
    decode,
    decode_messages,
    has_too_many_values,
    read_fields,
    read_list,
    read_request,
    write_fields,
    write_list,
)
from focusctx.session.store import Spelled
from helpers.histories import run
from helpers.raw_http import Raw, in_background, proxy, raw_upstream, request
from helpers.session_parts import Draft
from helpers.thorough import examples

pytestmark = pytest.mark.usefixtures("bounded")

_texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
"""Half surrogate pairs too: agents cut texts in the middle of a character."""
_leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _texts
_values = st.recursive(_leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4))


@st.composite
def spelled(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> bytes:
    """JSON as somebody might write it."""
    ascii_only = draw(st.booleans())
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r\n ")]))
    text = json.dumps(
        draw(values), ensure_ascii=ascii_only, separators=separators, indent=draw(st.sampled_from([None, 2]))
    )
    return text.encode("utf-8", "surrogatepass")


@given(spelled(st.dictionaries(_texts, _values, max_size=6)))
def test_an_object_is_made_of_its_own_bytes(body: bytes) -> None:
    fields = read_fields(body)
    if fields is None:
        with pytest.raises(ValueError, match="codec"):
            json.loads(body)  # half a pair that is not escaped is no UTF-8
        return
    assert json.loads(write_fields(fields)) == json.loads(body)
    if not has_half_pair(body):
        assert all(value in body for value in fields.values())


def has_half_pair(body: bytes) -> bool:
    return any(0xD800 <= ord(character) < 0xE000 for character in json.dumps(json.loads(body), ensure_ascii=False))


@given(spelled(st.lists(_values, max_size=6)))
def test_a_list_is_made_of_its_own_bytes(value: bytes) -> None:
    elements = read_list(value)
    if elements is None:
        with pytest.raises(ValueError, match="codec"):
            json.loads(value)
        return
    assert json.loads(write_list(elements)) == json.loads(value)
    if not has_half_pair(value):
        assert all(element in value for element in elements)


@given(st.binary(max_size=60) | spelled(_values) | st.from_regex(rb"\s*[{\[].{0,20}[\]}]\s*", fullmatch=True))
def test_whatever_it_is_reading_does_not_raise(body: bytes) -> None:
    fields, elements = read_fields(body), read_list(body)
    assert fields is None or elements is None


_message = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": _texts})


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), _message), max_size=6), max_size=6), st.randoms())
def test_what_is_known_goes_up_in_its_own_spelling(
    requests: list[list[tuple[int, Any]]], chance: random.Random
) -> None:
    """Requests of a conversation that grows, is cut and forks: messages are the same objects as long as their bytes
    are the same, and any view of them is made of their bytes."""
    reading = Decoded([], [])
    before: list[bytes] = []
    objects: list[Any] = []
    for drawn in requests:
        bytes_ = [json.dumps(message, indent=indent or None).encode() for indent, message in drawn]
        if chance.random() < 0.7:
            bytes_ = before + bytes_
        reading = decode_messages(bytes_, reading)
        assert reading.messages == [json.loads(each) for each in bytes_]
        same = next((at for at, (a, b) in enumerate(zip(before, bytes_, strict=False)) if a != b), None)
        for at in range(min(len(before), len(bytes_)) if same is None else same):
            assert reading.messages[at] is objects[at]
        assert reading.raw_view(reading.messages) is None
        kept = [at for at in range(len(bytes_)) if chance.random() < 0.6]
        note = Spelled.made({"role": "user", "content": "left out: \ud83d"})
        view = [*(reading.messages[at] for at in kept), note]
        first = reading.raw_view(view)
        assert first is not None
        assert first[:-1] == [bytes_[at] for at in kept]
        assert json.loads(first[-1]) == note
        before, objects = bytes_, reading.messages


@pytest.mark.parametrize(
    "odd", [b'{"n": ' + b"1" * 5000 + b"}", b"[" * 100_000 + b"]" * 100_000], ids=["digits", "deep"]
)
def test_messages_that_cannot_be_decoded(odd: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        decode_messages([b'{"role": "user"}', odd], Decoded([], []))


def test_values_that_are_needed() -> None:
    assert decode(None) is None
    assert decode(b'"resp_1"') == "resp_1"


# Requests that begin with the bytes of an earlier one.

short = st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | short,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(short, inner, max_size=3),
    max_leaves=6,
)
messages = st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": values})
spacings = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n ", " : ")])


def written(fields: dict[str, Any], spacing: tuple[str, str], indent: int | None = None) -> bytes:
    return json.dumps(fields, separators=spacing, ensure_ascii=False, indent=indent).encode("utf-8", "surrogatepass")


class Reader:
    """Reads each request by the last earlier one that it begins with."""

    def __init__(self) -> None:
        self._earlier: list[Request] = []

    def read(self, body: bytes) -> Request | None:
        by = next((request for request in self._earlier if request.is_start_of(body)), None)
        found = read_request(body, "messages", by)
        self._earlier[:0] = [found] if found else []
        return found


def check(reader: Reader, body: bytes) -> Request:
    """Read a request, and compare the result with that of reading the whole body."""
    found = reader.read(body)
    assert found is not None
    assert found.messages is not None
    fields = read_fields(body)
    assert fields is not None
    assert found.messages == read_list(fields["messages"])
    assert {name: value for name, value in found.fields.items() if name != "messages"} == {
        name: value for name, value in fields.items() if name != "messages"
    }
    assert list(found.fields) == list(fields)
    assert json.loads(found.with_messages(found.messages)) == json.loads(body)
    assert json.loads(found.with_messages(found.messages[1:]))["messages"] == json.loads(body)["messages"][1:]
    assert json.loads(found.with_fields({"n": b"1"})) == {**json.loads(body), "n": 1}
    return found


HEAD = "a head that all of them share " * 8
"""Longer than the beginning by which requests are told apart."""


@given(st.data())
@settings(deadline=None)
def test_a_growing_conversation_reads_the_same(data: st.DataObject) -> None:
    reader, spacing = Reader(), data.draw(spacings)
    before, after = (
        {"model": HEAD, **data.draw(st.dictionaries(short, values, max_size=2))},
        data.draw(st.dictionaries(short, values, max_size=2)),
    )
    history = data.draw(st.lists(messages, min_size=1, max_size=4))
    for _ in range(3):
        check(reader, written({**before, "messages": history, **after}, spacing))
        history = [*history, *data.draw(st.lists(messages, max_size=2))]
        if data.draw(st.booleans()):  # the agent edits its past, or changes another field
            history = [*history[:-1], data.draw(messages)]
            after = data.draw(st.dictionaries(short, values, max_size=2))


def test_only_what_is_new_is_read_again() -> None:
    reader = Reader()
    history = [{"role": "user", "content": f"message {number}"} for number in range(50)]
    first = check(reader, written({"model": "m", "messages": history, "stream": False}, (",", ":")))
    second = check(reader, written({"model": "m", "messages": [*history, *history[:2]], "stream": True}, (",", ":")))
    third = check(reader, written({"model": "m", "messages": [*history, *history[:9]], "stream": True}, (",", ":")))
    for old, new in ((first, second), (second, third)):
        assert all(before is after for before, after in zip(old.messages or (), new.messages or (), strict=False))
    assert second.fields["stream"] == b"true"
    assert third.fields is second.fields
    again = check(reader, written({"model": "m", "messages": [*history, *history[:9]], "stream": True}, (",", ":")))
    assert again is third


def test_other_messages_go_up_in_the_place_of_its_own_and_nothing_else_changes() -> None:
    body = b' {"model" : "m",\n "model": "n", "messages" : [ {"a": 1} ,\n {"b": 2} ] , "x":{ } } '
    found = check(Reader(), body)
    assert (
        found.with_messages([b'{"b": 2}']) == b' {"model" : "m",\n "model": "n", "messages" : [ {"b": 2}] , "x":{ } } '
    )
    assert json.loads(found.with_messages([])) == {"model": "n", "messages": [], "x": {}}


def test_a_history_whose_name_is_spelled_in_another_way() -> None:
    body = rb'{"x":"messages","mess\u0061ges":[1,2]}'
    assert json.loads(check(Reader(), body).with_messages([b"2"])) == {"x": "messages", "messages": [2]}


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[1],"messages":[2]}',
        b'{"messages":[1,2],"x":{"messages":[3]}}',
        b'{"messages":[1,2],"messages":[1,2,3]}',
        b'{"x":[1],"messages":[1]}',
        b'{"messages":[1,{"messages":[1]}]}',
    ],
)
def test_names_that_come_twice(body: bytes) -> None:
    reader = Reader()
    head = b'{"model":"' + HEAD.encode() + b'",'
    for start in (b'{"messages":[1]}', b'{"messages":[1,2]}', b'{"x":[1],"messages":[1]}'):
        check(reader, start.replace(b"{", head, 1))
    check(reader, body.replace(b"{", head, 1))
    check(reader, body.replace(b"{", head, 1))


def test_bodies_without_a_history() -> None:
    reader = Reader()
    check(reader, b'{"messages":[1]}')
    assert reader.read(b'{"messages":[1') is None
    assert reader.read(b'{"messages":[1}') is None
    assert reader.read(b'{"messages":[1] "x"') is None
    assert reader.read(b"[]") is None
    assert reader.read(b'{"messages":"x"}') == Request("messages", {"messages": b'"x"'}, None)
    assert reader.read(b'{"input":[]}') == Request("messages", {"input": b"[]"}, None)


# Limits.

TEXTS = [",", '","', '\\","', "\\", "\\\\,", 'a "quoted, word", and \\', "\n,\t", "é,ü", '{"a": [1, 2, 3]}']


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_stands_in_strings_does_not_count(text: str, ascii_only: bool) -> None:
    few = [{"role": "user", "content": text * 300_000}, {"role": "user", "content": text}]
    assert not has_too_many_values(json.dumps(few, ensure_ascii=ascii_only).encode())
    many = [text] * (module.VALUES + 2)
    assert has_too_many_values(json.dumps(many, ensure_ascii=ascii_only).encode())


@given(st.lists(st.text(alphabet='\\",a ', max_size=6), max_size=30), st.integers(1, 40))
def test_the_bound_is_exact_for_a_list(texts: list[str], bound: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "VALUES", bound)
        assert has_too_many_values(json.dumps(texts).encode()) == (len(texts) > bound)


# Through the sockets: whatever is no readable history arrives as it was sent.


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Raw, str]]:
    """A provider that takes anything, behind a proxy that drops whatever it can."""

    @asynccontextmanager
    async def both() -> AsyncIterator[tuple[Raw, str]]:
        async with raw_upstream() as up, proxy(up.url, focus=Focus(Draft(), budget=20)) as (_, url):
            yield up, url

    with in_background(both) as ends:
        yield ends


def arrives(wire: tuple[Raw, str], path: str, body: bytes) -> bytes:
    """What there is of a body at the provider."""
    up, url = wire
    up.got.clear()
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(request("POST", path, [("Connection", "close")], body))
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    (got,) = up.got
    return got.body


LONG = json.dumps({"model": "m", "messages": run(12)})
NESTED = "[" * 50_000 + "]" * 50_000

ODD: dict[str, bytes | str] = {
    "nothing but space": " \r\n",
    "no JSON": "messages: []",
    "cut": LONG[:-1],
    "two": LONG + LONG,
    "a list": f"[{LONG}]",
    "a text": '"messages"',
    "a number": "1e999",
    "null": "null",
    "no messages": '{"model": "m"}',
    "messages is a text": '{"messages": "hello", "input": "hello"}',
    "messages is an object": '{"messages": {"0": {"role": "user"}}}',
    "messages is null": '{"messages": null}',
    "no message in it": '{"messages": []}',
    "texts for messages": json.dumps({"messages": ["hello"] * 500}),
    "lists for messages": json.dumps({"messages": [["hello"] * 10] * 50}),
    "numbers for messages": json.dumps({"messages": [1, None, True, 2.5] * 500}),
    "roles of another type": json.dumps({"messages": [{"role": 7, "content": "x " * 500}, {"role": None}] * 3}),
    "contents of another type": json.dumps({"messages": [{"role": "user", "content": 5 * [7.5]}] * 90}),
    "tool calls of another type": json.dumps({"messages": [{"role": "assistant", "tool_calls": "x " * 500}] * 9}),
    "results without calls": json.dumps({"messages": [{"role": "tool", "tool_call_id": "?", "content": "x"}] * 90}),
    "deep": f'{{"messages": {NESTED}}}',
    "deep elsewhere": LONG[:-1] + f', "metadata": {NESTED}}}',
    "deep in a message": '{"messages": [{"role": "user", "content": ' + NESTED + "}]}",
    "no UTF-8": LONG.encode().replace(b"Do the task", b"Do \xff\xfe task"),
    "UTF-16": LONG.encode("utf-16") + b"\0",
    "a huge number in a message": json.dumps({"messages": run(12)}).replace('"result 3"', "7" * 5000),
    "a control character": LONG.replace("Do the task", "Do \x00 task"),
}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses"])
@pytest.mark.parametrize("what", ODD)
def test_odd_bodies_arrive_as_they_were_sent(
    wire: tuple[Raw, str], what: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    odd = ODD[what]
    body = odd if isinstance(odd, bytes) else odd.encode()
    assert arrives(wire, path, body) == body
    assert [record for record in caplog.records if record.exc_info] == [], "nothing that was not expected"


LENIENT = {
    "not a number": LONG[:-1] + ', "logit_bias": {"1": NaN, "2": -Infinity}}',
    "half a pair": LONG.replace("Do the task", "Do \\ud83d it"),
    "half a pair in a name": LONG[:-1] + ', "metadata": {"\\ude00": 1}}',
    "a name twice": '{"model": "first", ' + LONG[1:],
    "the history twice": LONG[:-1] + ', "messages": ' + json.dumps(run(9)) + "}",
    "a mark at the beginning": "\ufeff" + LONG,
    "much space": json.dumps(json.loads(LONG), indent=8),
}


@pytest.mark.parametrize("what", LENIENT)
def test_what_a_lenient_parser_reads_is_compressed_and_means_the_same(wire: tuple[Raw, str], what: str) -> None:
    body = LENIENT[what]
    received = arrives(wire, "/v1/chat/completions", body.encode())
    before, after = json.loads(body.lstrip("\ufeff")), json.loads(received)
    assert len(after["messages"]) < len(before["messages"])
    assert [message for message in before["messages"] if message in after["messages"]] == after["messages"]
    for each in (before, after):
        each["messages"] = ()
    assert json.dumps(before) == json.dumps(after)


def test_numbers_go_up_as_they_were_written(wire: tuple[Raw, str]) -> None:
    body = LONG[:-1] + f', "seed": {"7" * 5000}, "top_p": 0.10000000000000000001, "n": 1e0}}'
    received = arrives(wire, "/v1/chat/completions", body.encode()).decode()
    assert len(received) < len(body)
    for number in ("7" * 5000, "0.10000000000000000001", "1e0"):
        assert number in received


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A history that something happened to."""
    body = bytearray(LONG.encode())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(body)))
        if draw(st.booleans()):
            body[at:at] = draw(st.binary(max_size=3))
        else:
            del body[at : at + draw(st.integers(1, 40))]
    return bytes(body)


@settings(max_examples=examples(150))
@given(body=st.binary(max_size=200) | damaged() | spelled(st.dictionaries(st.just("messages"), _values, max_size=1)))
def test_what_arrives_is_what_was_sent_or_a_part_of_it(wire: tuple[Raw, str], body: bytes) -> None:
    received = arrives(wire, "/v1/chat/completions", body)
    if received == body:
        return
    before, after = json.loads(body), json.loads(received)
    rest = iter(before["messages"])
    assert all(message in rest for message in after["messages"]), "an in-order part"
    assert {**before, "messages": 0} == {**after, "messages": 0}
    assert len(after["messages"]) < len(before["messages"])
