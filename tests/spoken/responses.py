"""OpenAI Responses."""

import json
from collections.abc import Iterator

from .answer import CREATED, Answer, Json, event


def response(answer: Answer) -> Json:
    output: list[Json] = []
    if answer.say.thinking:
        summary = [{"type": "summary_text", "text": answer.say.thinking}]
        sealed = f"sealed-{answer.number:06d}"
        output.append(
            {"id": f"rs_{answer.number:06d}", "type": "reasoning", "summary": summary, "encrypted_content": sealed}
        )
    if answer.say.text or not answer.say.calls:
        content = [{"type": "output_text", "text": answer.say.text, "annotations": [], "logprobs": []}]
        output.append(
            {
                "id": f"msg_{answer.number:06d}",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": content,
            }
        )
    for place, call in enumerate(answer.say.calls):
        what: Json = {"type": "function_call", "arguments": json.dumps(call.arguments)}
        if call.custom:
            what = {"type": "custom_tool_call", "input": call.custom}
        prefix = "ctc" if call.custom else "fc"
        ids = {"id": f"{prefix}_{answer.number:06d}{place:02d}", "call_id": answer.id_of(place, "call")}
        output.append({**ids, "status": "completed", "name": call.name, **what})
    usage = {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.thinking_tokens},
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }
    defaults: Json = {
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
    }
    return {
        "id": f"resp_{answer.number:06d}",
        "object": "response",
        "created_at": CREATED + answer.number,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": answer.model,
        **{key: answer.request.get(key, default) for key, default in defaults.items()},
        "output": output,
        "usage": usage,
    }


def events(answer: Answer) -> Iterator[bytes]:
    complete = response(answer)
    begun = {**complete, "status": "in_progress", "output": [], "usage": None}
    told: list[tuple[str, Json]] = [("created", {"response": begun}), ("in_progress", {"response": begun})]
    for index, item in enumerate(complete["output"]):
        begin = {**item, **_EMPTY[item["type"]]}
        told.append(("output_item.added", {"output_index": index, "item": begin}))
        within = {"item_id": item["id"], "output_index": index}
        told += [(kind, {**within, **fields}) for kind, fields in _inside(item, answer)]
        told.append(("output_item.done", {"output_index": index, "item": item}))
    told.append(("completed", {"response": complete}))
    for number, (kind, fields) in enumerate(told):
        name = f"response.{kind}"
        yield event({"type": name, "sequence_number": number, **fields}, name)


_EMPTY: dict[str, Json] = {
    "reasoning": {"summary": [], "encrypted_content": ""},
    "message": {"status": "in_progress", "content": []},
    "function_call": {"status": "in_progress", "arguments": ""},
    "custom_tool_call": {"status": "in_progress", "input": ""},
}


def _inside(item: Json, answer: Answer) -> Iterator[tuple[str, Json]]:
    if item["type"] in ("function_call", "custom_tool_call"):
        key = "arguments" if item["type"] == "function_call" else "input"
        name = "function_call_arguments" if key == "arguments" else "custom_tool_call_input"
        for piece in answer.pieces(item[key]):
            yield f"{name}.delta", {"delta": piece}
        yield f"{name}.done", {key: item[key]}
        return
    reasoning = item["type"] == "reasoning"
    part = (item["summary"] if reasoning else item["content"])[0]
    place: Json = {"summary_index": 0} if reasoning else {"content_index": 0}
    more: Json = {} if reasoning else {"logprobs": []}
    around, within = (
        ("reasoning_summary_part", "reasoning_summary_text") if reasoning else ("content_part", "output_text")
    )
    yield f"{around}.added", {**place, "part": {**part, "text": ""}}
    for piece in answer.pieces(part["text"]):
        yield f"{within}.delta", {**place, "delta": piece, **more}
    yield f"{within}.done", {**place, "text": part["text"], **more}
    yield f"{around}.done", {**place, "part": part}
