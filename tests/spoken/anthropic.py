"""Anthropic Messages."""

import json
from collections.abc import Iterator

from .answer import Answer, Json, event


def message(answer: Answer) -> Json:
    content: list[Json] = []
    if answer.say.thinking:
        signature = f"signed-{answer.number:06d}"
        content.append({"type": "thinking", "thinking": answer.say.thinking, "signature": signature})
    if answer.say.text:
        content.append({"type": "text", "text": answer.say.text})
    for place, call in enumerate(answer.say.calls):
        content.append(
            {"type": "tool_use", "id": answer.id_of(place, "toolu"), "name": call.name, "input": call.arguments}
        )
    return {
        "id": f"msg_{answer.number:06d}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": "tool_use" if answer.say.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": answer.input_tokens - answer.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": answer.cached_tokens,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": answer.output_tokens,
            "service_tier": "standard",
        },
    }


def events(answer: Answer) -> Iterator[bytes]:
    complete = message(answer)
    usage = complete["usage"]
    begun = {**complete, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _named({"type": "message_start", "message": begun})
    yield _named({"type": "ping"})
    for index, block in enumerate(complete["content"]):
        empty, deltas = _block_events(block, answer)
        yield _named({"type": "content_block_start", "index": index, "content_block": {**block, **empty}})
        for delta in deltas:
            yield _named({"type": "content_block_delta", "index": index, "delta": delta})
        yield _named({"type": "content_block_stop", "index": index})
    totals = {key: value for key, value in usage.items() if key.endswith("_tokens")}
    end = {"stop_reason": complete["stop_reason"], "stop_sequence": None}
    yield _named({"type": "message_delta", "delta": end, "usage": totals})
    yield _named({"type": "message_stop"})


def _block_events(block: Json, answer: Answer) -> tuple[Json, list[Json]]:
    """The fields that are empty when the block opens, and the deltas that fill them."""
    if block["type"] == "thinking":
        thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in answer.pieces(block["thinking"])]
        return {"thinking": "", "signature": ""}, [
            *thoughts,
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    if block["type"] == "text":
        return {"text": ""}, [{"type": "text_delta", "text": piece} for piece in answer.pieces(block["text"])]
    pieces = ["", *answer.pieces(json.dumps(block["input"]))]
    return {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _named(data: Json) -> bytes:
    return event(data, data["type"])
