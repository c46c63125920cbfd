"""Gemini contents: calls in parallel with and without ids, signatures, results beside words, both spellings."""

import re
from itertools import count

from hypothesis import strategies as st

from .parts import PNG, Draw, Event, Ids, Json, booleans, events, maybe, names, one_of, some, texts, words


@st.composite
def gemini_histories(draw: Draw, complete: bool = False) -> list[Json]:
    ids = map("call_{}".format, count())
    contents = _user(draw, ids) + events(draw, ids, _EVENTS)
    if complete or draw(booleans):
        contents += _calls(draw, ids)[: None if complete else -1]
    return _as_the_sdk_dumps(contents) if draw(booleans) else contents


def _as_the_sdk_dumps(contents: list[Json]) -> list[Json]:
    """In snake_case, with the fields that are not set as null."""

    def spelled(part: Json) -> Json:
        snake = {re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key): value for key, value in part.items()}
        return {"text": None, "function_call": None, "function_response": None, "thought_signature": None, **snake}

    return [{**content, "parts": [spelled(part) for part in content["parts"]]} for content in contents]


def _user(draw: Draw, ids: Ids) -> list[Json]:
    media = one_of(
        draw,
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "files/x"}},
        {"text": draw(words)},
    )
    return [{"role": "user", "parts": [{"text": draw(words)}, *([media] if draw(booleans) else [])]}]


def _said(draw: Draw) -> list[Json]:
    return one_of(draw, [], [{"text": draw(texts)}], [{"text": draw(texts), "thought": True}, {"text": draw(texts)}])


def _text(draw: Draw, ids: Ids) -> list[Json]:
    """An answer, perhaps as the pieces of a stream, perhaps signed at its end."""
    parts = [*_said(draw), {"text": draw(texts), **maybe(draw, {"thoughtSignature": "c2lnbmVk"})}]
    whole = [{"role": "model", "parts": parts}]
    return one_of(draw, whole, [{"role": "model", "parts": [part]} for part in parts])


def _calls(draw: Draw, ids: Ids) -> list[Json]:
    """A turn with calls in parallel; the next content has all the results, perhaps before words of the user."""
    signed = maybe(draw, {"thoughtSignature": "c2lnbmVk"})
    calls: list[Json] = [{"name": draw(names), "args": {"at": draw(texts)}} for _ in some(draw)]
    with_ids = draw(booleans)
    if with_ids:
        calls = [{"id": next(ids), **call} for call in calls]
    parts: list[Json] = [{"functionCall": call} for call in calls]
    parts[0] |= signed
    results = [_response(draw, call, with_ids) for call in calls]
    if with_ids and all("id" in result["functionResponse"] for result in results):
        results = draw(st.permutations(results))
    behind = [{"text": draw(words)}] if draw(booleans) else []
    whole = [{"role": "model", "parts": [*_said(draw), *parts]}]
    turn = one_of(draw, whole, [{"role": "model", "parts": [part]} for part in whole[0]["parts"]])  # streamed
    return [*turn, {"role": one_of(draw, "user", "user", "function"), "parts": [*results, *behind]}]


def _response(draw: Draw, call: Json, with_ids: bool) -> Json:
    response = one_of(
        draw,
        {"result": draw(texts)},
        {"output": draw(texts)},
        {"error": draw(texts)},
        {"items": [{"id": 7, "text": draw(texts)}], "more": False},
        {},
    )
    image = {"parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}]}
    own = {"id": call["id"]} if with_ids and draw(booleans) else {}
    return {"functionResponse": {**own, "name": call["name"], "response": response, **maybe(draw, image)}}


def _code(draw: Draw, ids: Ids) -> list[Json]:
    """Code that the provider runs itself, within the turn."""
    ran = {"executableCode": {"language": "PYTHON", "code": "1"}}
    printed = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": draw(texts)}}
    return [{"role": "model", "parts": [ran, printed, {"text": draw(texts)}]}]


_EVENTS: list[Event] = [_calls, _calls, _calls, _text, _user, _code]
