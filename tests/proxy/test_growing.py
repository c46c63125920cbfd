"""Bodies that grew are read as if they were read whole."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.proxy.body import read_fields, read_list
from focusctx.proxy.growing import Bodies, Body
from focusctx.proxy.limits import weight

texts = st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
messages = st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": values})
spacings = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n ", " : ")])


def spelled(fields: dict[str, Any], spacing: tuple[str, str], indent: int | None = None) -> bytes:
    return json.dumps(fields, separators=spacing, ensure_ascii=False, indent=indent).encode("utf-8", "surrogatepass")


def check(bodies: Bodies, body: bytes) -> Body:
    """What the bodies make of it is what it says."""
    found = bodies.read(body, "messages")
    assert isinstance(found, Body)
    fields = read_fields(body)
    assert fields is not None
    assert found.spelled == read_list(fields["messages"])
    assert {name: value for name, value in found.fields.items() if name != "messages"} == {
        name: value for name, value in fields.items() if name != "messages"
    }
    assert list(found.fields) == list(fields)
    assert json.loads(found.holding(found.spelled)) == json.loads(body)
    assert json.loads(found.holding(found.spelled[1:], {"n": b"1"})) == {
        **json.loads(body),
        "messages": json.loads(body)["messages"][1:],
        "n": 1,
    }
    return found


LONG = "a head that all of them share " * 8
"""Longer than the beginning by which requests are told apart."""


@given(st.data())
@settings(deadline=None)
def test_a_growing_conversation_reads_the_same(data: st.DataObject) -> None:
    bodies, spacing = Bodies(), data.draw(spacings)
    before, after = (
        {"model": LONG, **data.draw(st.dictionaries(texts, values, max_size=2))},
        data.draw(st.dictionaries(texts, values, max_size=2)),
    )
    history = data.draw(st.lists(messages, min_size=1, max_size=4))
    for _ in range(3):
        check(bodies, spelled({**before, "messages": history, **after}, spacing))
        history = [*history, *data.draw(st.lists(messages, max_size=2))]
        if data.draw(st.booleans()):  # the agent edits its past, or changes another field
            history = [*history[:-1], data.draw(messages)]
            after = data.draw(st.dictionaries(texts, values, max_size=2))


def test_only_what_is_new_is_read_again() -> None:
    bodies = Bodies()
    history = [{"role": "user", "content": f"message {number}"} for number in range(50)]
    first = check(bodies, spelled({"model": "m", "messages": history, "stream": False}, (",", ":")))
    second = check(bodies, spelled({"model": "m", "messages": [*history, *history[:2]], "stream": True}, (",", ":")))
    third = check(bodies, spelled({"model": "m", "messages": [*history, *history[:9]], "stream": True}, (",", ":")))
    for old, new in ((first, second), (second, third)):
        assert all(before is after for before, after in zip(old.spelled, new.spelled, strict=False))
    assert second.fields["stream"] == b"true"
    assert third.fields is second.fields
    again = check(bodies, spelled({"model": "m", "messages": [*history, *history[:9]], "stream": True}, (",", ":")))
    assert again is third


def test_other_messages_go_up_in_the_place_of_its_own_and_nothing_else_changes() -> None:
    body = b' {"model" : "m",\n "model": "n", "messages" : [ {"a": 1} ,\n {"b": 2} ] , "x":{ } } '
    found = Bodies().read(body, "messages")
    assert isinstance(found, Body)
    assert found.holding([b'{"b": 2}']) == b' {"model" : "m",\n "model": "n", "messages" : [ {"b": 2}] , "x":{ } } '
    assert json.loads(found.holding([])) == {"model": "n", "messages": [], "x": {}}


def test_a_history_whose_name_is_spelled_in_another_way() -> None:
    body = rb'{"x":"messages","mess\u0061ges":[1,2]}'
    assert json.loads(check(Bodies(), body).holding([b"2"])) == {"x": "messages", "messages": [2]}


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
    bodies = Bodies()
    head = b'{"model":"' + LONG.encode() + b'",'
    for start in (b'{"messages":[1]}', b'{"messages":[1,2]}', b'{"x":[1],"messages":[1]}'):
        check(bodies, start.replace(b"{", head, 1))
    check(bodies, body.replace(b"{", head, 1))
    check(bodies, body.replace(b"{", head, 1))


def test_what_is_no_history_is_said_to_be_none() -> None:
    bodies = Bodies()
    check(bodies, b'{"messages":[1]}')
    assert bodies.read(b'{"messages":[1', "messages") is None
    assert bodies.read(b'{"messages":[1}', "messages") is None
    assert bodies.read(b'{"messages":[1] "x"', "messages") is None
    assert bodies.read(b"[]", "messages") is None
    assert bodies.read(b'{"messages":"x"}', "messages") == {"messages": b'"x"'}
    assert bodies.read(b'{"input":[]}', "messages") == {"input": b"[]"}


def test_memory_is_bounded() -> None:
    bodies = Bodies()
    for number in range(300):
        check(bodies, spelled({"model": f"{number:0200}", "messages": ["x" * 1000]}, (",", ":")))
        check(bodies, spelled({"messages": ["y" * 1000, number]}, (",", ":")))
    kept = [body for known in bodies._recent.values() for _, _, body in known]
    assert len(kept) <= 64 + 64
    assert bodies._held == sum(len(body.start) + weight(body.spelled) for body in kept)
