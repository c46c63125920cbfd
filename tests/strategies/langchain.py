"""LangChain messages as dumps, flat or inside `data`: parallel calls, thinking, media, unparsed calls."""

from itertools import count

from hypothesis import strategies as st

from .parts import PNG, Draw, Event, Ids, Json, booleans, events, maybe, names, one_of, some, texts, words


@st.composite
def langchain_histories(draw: Draw, complete: bool = False) -> list[Json]:
    ids = map("call_{}".format, count())
    opening = [_dump("system", "You help.")] if draw(booleans) else []
    messages = opening + _user(draw, ids) + events(draw, ids, _EVENTS)
    if complete or draw(booleans):
        messages += _calls(draw, ids)[: None if complete else 1]
    nested = draw(booleans)
    return [{"type": each["type"], "data": each} for each in messages] if nested else messages


def _dump(kind: str, content: object, **more: object) -> Json:
    plain = {"additional_kwargs": {}, "response_metadata": {}, "name": None, "id": None}
    return {"content": content, **plain, "type": kind, **more}


def _text(draw: Draw) -> Json:
    return {"type": "text", "text": draw(texts)}


def _media(draw: Draw) -> Json:
    return one_of(
        draw,
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
    )


def _user(draw: Draw, ids: Ids) -> list[Json]:
    blocks = [{"type": "text", "text": draw(words)}, *([_media(draw)] if draw(booleans) else [])]
    return [_dump("human", one_of(draw, draw(words), blocks))]


def _thinking(draw: Draw) -> list[Json]:
    return one_of(draw, [], [{"type": "thinking", "thinking": draw(texts), "signature": "EqQBCg=="}])


def _speech(draw: Draw, ids: Ids) -> list[Json]:
    content = one_of(draw, draw(texts), [*_thinking(draw), _text(draw)])
    return [_dump("ai", content, tool_calls=[], invalid_tool_calls=[])]


def _calls(draw: Draw, ids: Ids) -> list[Json]:
    """A turn with calls in parallel, as the integration of OpenAI or of Anthropic writes it, and their results."""
    calls = [_call(draw, ids) for _ in some(draw)]
    broken = [{**_call(draw, ids), "args": "{", "type": "invalid_tool_call", "error": "no JSON"}]
    invalid = one_of(draw, [], [], broken)
    more: Json = {}
    content: object = one_of(draw, "", draw(texts))
    if draw(booleans):
        uses = [{"type": "tool_use", "id": each["id"], "name": each["name"], "input": each["args"]} for each in calls]
        content = [*_thinking(draw), _text(draw), *uses]
    elif draw(booleans):
        more = {"tool_calls": [{"id": each["id"], "function": {"name": each["name"]}} for each in calls]}
    turn = _dump("ai", content, tool_calls=calls, invalid_tool_calls=invalid, additional_kwargs=more)
    return [turn, *(_result(draw, each) for each in draw(st.permutations([*calls, *invalid])))]


def _call(draw: Draw, ids: Ids) -> Json:
    given = one_of(draw, {"at": draw(texts)}, {}, {"lines": [draw(texts), 3, None]})
    return {"name": draw(names), "args": given, "id": next(ids), "type": "tool_call"}


def _result(draw: Draw, call: Json) -> Json:
    content = one_of(draw, draw(texts), draw(texts), [_text(draw), _media(draw)], [_text(draw), _text(draw)])
    failed = maybe(draw, {"status": "error"})
    return _dump("tool", content, **{"tool_call_id": call["id"], "artifact": None, "status": "success", **failed})


_EVENTS: list[Event] = [_calls, _calls, _calls, _speech, _user]
