"""Ollama's own messages: calls without ids, results that name their tool, thinking, images."""

from itertools import count

from hypothesis import strategies as st

from .parts import PNG, Draw, Event, Ids, Json, booleans, events, maybe, names, one_of, some, texts, words


@st.composite
def ollama_histories(draw: Draw, complete: bool = False) -> list[Json]:
    ids = map("call_{}".format, count())
    opening = [{"role": "system", "content": "You help."}] if draw(booleans) else []
    messages = opening + _user(draw, ids) + events(draw, ids, _EVENTS)
    if complete or draw(booleans):
        messages += _calls(draw, ids)[: None if complete else 1]
    return messages


def _user(draw: Draw, ids: Ids) -> list[Json]:
    return [{"role": "user", "content": draw(words), **maybe(draw, {"images": [PNG]})}]


def _text(draw: Draw, ids: Ids) -> list[Json]:
    return [{"role": "assistant", "content": draw(texts), **maybe(draw, {"thinking": draw(texts)})}]


def _calls(draw: Draw, ids: Ids) -> list[Json]:
    """A turn with calls, and their results one by one; newer servers give ids, which results may repeat."""
    with_ids = draw(st.sampled_from([False, False, True]))
    calls = [_call(draw, next(ids) if with_ids else "") for _ in some(draw)]
    turn = {"role": "assistant", "content": one_of(draw, "", draw(texts)), "tool_calls": calls}
    return [{**turn, **maybe(draw, {"thinking": draw(texts)})}, *(_result(draw, call) for call in calls)]


def _call(draw: Draw, identity: str) -> Json:
    function = {"name": draw(names), "arguments": {"at": draw(texts), "page": 3}}
    return {**({"id": identity} if identity else {}), "function": function}


def _result(draw: Draw, call: Json) -> Json:
    named = {"tool_call_id": call["id"]} if "id" in call and draw(booleans) else {}
    result = {"role": "tool", "tool_name": call["function"]["name"], "content": draw(texts), **named}
    return {**result, **maybe(draw, {"images": [PNG]})}


_EVENTS: list[Event] = [_calls, _calls, _calls, _text, _user]
