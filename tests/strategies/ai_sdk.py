"""ModelMessages of the AI SDK: parallel calls, outputs of every type, tools of the provider, approvals, files."""

import json
from itertools import count

from hypothesis import strategies as st

from .parts import PNG, Draw, Event, Ids, Json, booleans, events, maybe, names, one_of, some, texts, words


@st.composite
def ai_sdk_histories(draw: Draw, complete: bool = False) -> list[Json]:
    ids = map("call_{}".format, count())
    opening = [{"role": "system", "content": "You help.", **_options(draw)}] if draw(booleans) else []
    messages = opening + _user(draw, ids) + events(draw, ids, _EVENTS)
    if complete or draw(booleans):
        messages += _calls(draw, ids)[: None if complete else 1]
    return messages


def _options(draw: Draw) -> Json:
    return maybe(draw, {"providerOptions": {"anthropic": {"cacheControl": {"type": "ephemeral"}}}})


def _text(draw: Draw) -> Json:
    return {"type": "text", "text": draw(texts), **_options(draw)}


def _media(draw: Draw) -> Json:
    return one_of(
        draw,
        {"type": "image", "image": PNG, "mediaType": "image/png"},
        {"type": "file", "data": PNG, "mediaType": "image/png"},
        {"type": "file", "data": {"type": "url", "url": "https://a.example/b.pdf"}, "mediaType": "application/pdf"},
    )


def _user(draw: Draw, ids: Ids) -> list[Json]:
    parts = [{"type": "text", "text": draw(words)}, *([_media(draw)] if draw(booleans) else [])]
    return [{"role": "user", "content": one_of(draw, draw(words), parts), **_options(draw)}]


def _reasoning(draw: Draw) -> list[Json]:
    signed = {"type": "reasoning", "text": draw(texts), "providerOptions": {"anthropic": {"signature": "EqQBCg=="}}}
    return one_of(draw, [], [], [signed])


def _speech(draw: Draw, ids: Ids) -> list[Json]:
    made = {"type": "file", "data": PNG, "mediaType": "image/png"}
    content = one_of(draw, draw(texts), [*_reasoning(draw), _text(draw)], [_text(draw), made])
    return [{"role": "assistant", "content": content}]


def _call(draw: Draw, ids: Ids) -> Json:
    given = one_of(draw, {"at": draw(texts)}, {}, {"lines": [draw(texts), 3, None]})
    return {"type": "tool-call", "toolCallId": next(ids), "toolName": draw(names), "input": given, **_options(draw)}


def _output(draw: Draw) -> Json:
    media = {"type": "file", "data": {"type": "data", "data": PNG}, "mediaType": "image/png"}
    return one_of(
        draw,
        {"type": "text", "value": draw(texts)},
        {"type": "text", "value": draw(texts)},
        {"type": "json", "value": one_of(draw, None, 7, {"found": draw(texts)}, [json.dumps({"a": 1})])},
        {"type": "error-text", "value": draw(texts)},
        {"type": "error-json", "value": {"error": draw(texts)}},
        {"type": "execution-denied", **maybe(draw, {"reason": "not now"})},
        {"type": "content", "value": [{"type": "text", "text": draw(texts)}, media]},
        {"type": "content", "value": [{"type": "text", "text": draw(texts)} for _ in range(2)]},
        {"type": "content", "value": []},
    )


def _result(draw: Draw, call: Json) -> Json:
    named = {"toolCallId": call["toolCallId"], "toolName": call["toolName"]}
    return {"type": "tool-result", **named, "output": _output(draw), **_options(draw)}


def _calls(draw: Draw, ids: Ids) -> list[Json]:
    """A turn with calls in parallel, and all results in one tool message or in several."""
    calls = [_call(draw, ids) for _ in some(draw)]
    said = [_text(draw)] if draw(booleans) else []
    results = draw(st.permutations([_result(draw, call) for call in calls]))
    cut = draw(st.integers(0, len(results) - 1))
    return [
        {"role": "assistant", "content": [*_reasoning(draw), *said, *calls]},
        *({"role": "tool", "content": some_of} for some_of in (results[:cut], results[cut:]) if some_of),
    ]


def _chain(draw: Draw, ids: Ids) -> list[Json]:
    """Steps one after the other that all rest on the reasoning before the first."""
    first = {"type": "reasoning", "text": draw(texts), "providerOptions": {"openai": {"itemId": "rs_1"}}}
    messages: list[Json] = []
    for number in range(draw(st.integers(2, 3))):
        call = _call(draw, ids)
        messages.append({"role": "assistant", "content": [first, call] if number == 0 else [call]})
        messages.append({"role": "tool", "content": [_result(draw, call)]})
    return messages


def _provider_tool(draw: Draw, ids: Ids) -> list[Json]:
    """A search that the provider runs: its result is in the same message, or in a later one."""
    call = {**_call(draw, ids), "toolName": "web_search", "providerExecuted": True}
    result = _result(draw, call)
    if draw(booleans):
        return [{"role": "assistant", "content": [call, result, _text(draw)]}]
    return [{"role": "assistant", "content": [call]}, {"role": "assistant", "content": [result, _text(draw)]}]


def _approval(draw: Draw, ids: Ids) -> list[Json]:
    """A call that a person has to approve."""
    call = _call(draw, ids)
    approval = f"approval_{call['toolCallId']}"
    request = {"type": "tool-approval-request", "approvalId": approval, "toolCallId": call["toolCallId"]}
    response = {"type": "tool-approval-response", "approvalId": approval, "approved": draw(booleans)}
    result = _result(draw, call)
    answered = one_of(
        draw,
        [{"role": "tool", "content": [response]}, {"role": "tool", "content": [result]}],
        [{"role": "tool", "content": [response, result]}],
    )
    return [{"role": "assistant", "content": [call, request]}, *answered]


_EVENTS: list[Event] = [_calls, _calls, _calls, _chain, _speech, _user, _provider_tool, _approval]
