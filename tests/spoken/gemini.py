"""Gemini's own API, as models since Gemini 3 answer: calls have ids, and the first one of a turn is signed."""

from collections.abc import Iterator

from .answer import Answer, Json, event


def response(answer: Answer) -> Json:
    return _chunk(answer, [*_thoughts(answer), *_texts(answer), *_calls(answer)], ended=True)


def events(answer: Answer) -> Iterator[bytes]:
    """One event for each piece of text and each call: the SDK keeps every one as a content of its own."""
    spoken = [{"text": piece, "thought": True} for piece in answer.pieces(answer.say.thinking)]
    spoken += [{"text": piece} for piece in answer.pieces(answer.say.text)]
    for part in (*spoken, *_calls(answer)):
        yield event(_chunk(answer, [part], ended=False))
    yield event(_chunk(answer, [{"text": ""}], ended=True))


def _thoughts(answer: Answer) -> list[Json]:
    return [{"text": answer.say.thinking, "thought": True}] if answer.say.thinking else []


def _texts(answer: Answer) -> list[Json]:
    return [{"text": answer.say.text}] if answer.say.text else []


def _calls(answer: Answer) -> list[Json]:
    calls: list[Json] = [
        {"functionCall": {"name": call.name, "args": call.arguments, "id": answer.id_of(place, "fc")}}
        for place, call in enumerate(answer.say.calls)
    ]
    if calls:
        calls[0]["thoughtSignature"] = "c2lnbmVk" * 8
    return calls


def _chunk(answer: Answer, parts: list[Json], *, ended: bool) -> Json:
    candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if ended:
        candidate["finishReason"] = "STOP"
    usage = {
        "promptTokenCount": answer.input_tokens,
        "candidatesTokenCount": answer.output_tokens,
        "totalTokenCount": answer.input_tokens + answer.output_tokens + answer.thinking_tokens,
        "cachedContentTokenCount": answer.cached_tokens,
        "thoughtsTokenCount": answer.thinking_tokens,
    }
    version = {"modelVersion": "scripted", "responseId": f"r{answer.number:06d}"}
    return {"candidates": [candidate], "usageMetadata": usage, **version}
