"""Ollama's `/api/chat`: one object, or a line of JSON for each piece."""

import json
from collections.abc import Iterator

from .answer import Answer, Json


def response(answer: Answer) -> Json:
    said = answer.say
    return _line(answer, {"content": said.text, **_thinking(said.thinking), **_calls(answer)}, done=True)


def lines(answer: Answer) -> Iterator[bytes]:
    pieces: list[Json] = [{"content": "", **_thinking(piece)} for piece in answer.pieces(answer.say.thinking)]
    pieces += [{"content": piece} for piece in answer.pieces(answer.say.text)]
    if answer.say.calls:
        pieces.append({"content": "", **_calls(answer)})
    for piece in pieces:
        yield json.dumps(_line(answer, piece, done=False)).encode() + b"\n"
    yield json.dumps(_line(answer, {"content": ""}, done=True)).encode() + b"\n"


def _thinking(text: str) -> Json:
    return {"thinking": text} if text else {}


def _calls(answer: Answer) -> Json:
    calls = [{"function": {"name": call.name, "arguments": call.arguments}} for call in answer.say.calls]
    return {"tool_calls": calls} if calls else {}


def _line(answer: Answer, message: Json, *, done: bool) -> Json:
    line = {"model": answer.model, "created_at": "2026-11-01T00:00:00Z", "message": {"role": "assistant", **message}}
    counts = {"prompt_eval_count": answer.input_tokens, "eval_count": answer.output_tokens}
    return {**line, "done": done, **({"done_reason": "stop", **counts} if done else {})}
