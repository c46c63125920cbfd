"""OpenAI Chat Completions."""

import json
from collections.abc import Iterator

from .answer import CREATED, Answer, Json, event


def completion(answer: Answer) -> Json:
    calls = [
        {
            "id": answer.id_of(place, "call"),
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for place, call in enumerate(answer.say.calls)
    ]
    message: Json = {"role": "assistant", "content": answer.say.text or None, "refusal": None, "annotations": []}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if calls else "stop"}
    if calls:
        message["tool_calls"] = calls
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def _head(answer: Answer, object: str) -> Json:
    return {
        "id": f"chatcmpl-{answer.number:06d}",
        "object": object,
        "created": CREATED + answer.number,
        "model": answer.model,
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
    }


def _usage(answer: Answer) -> Json:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def events(answer: Answer) -> Iterator[bytes]:
    with_usage = bool((answer.request.get("stream_options") or {}).get("include_usage"))
    head = {**_head(answer, "chat.completion.chunk"), **({"usage": None} if with_usage else {})}

    def chunk(delta: Json, finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return event({**head, "choices": [choice]})

    choice = completion(answer)["choices"][0]
    yield chunk({"role": "assistant", "content": "" if answer.say.text else None, "refusal": None})
    for piece in answer.pieces(answer.say.text):
        yield chunk({"content": piece})
    for index, call in enumerate(choice["message"].get("tool_calls", [])):
        yield chunk({"tool_calls": [{"index": index, **call, "function": {**call["function"], "arguments": ""}}]})
        for piece in answer.pieces(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    if with_usage:
        yield event({**head, "choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"
