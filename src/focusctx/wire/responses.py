"""OpenAI Responses input items: flat, paired by `call_id`, reasoning bound to what follows it."""

from __future__ import annotations

from collections.abc import Mapping

from ..types import Message
from . import react
from .part import (
    MEDIA_TOKENS,
    Kind,
    Part,
    as_json,
    blocks_of,
    join,
    kind_of,
    omitted,
    require,
    role_of,
    text_of,
    texts_of,
)

_PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAA"
    "AABJRU5ErkJggg=="
)
"""One clear pixel: a computer call's output must be a screenshot, so its placeholder is the smallest one."""


class Responses:
    name = "responses"
    turns_run_on = True

    def claims(self, message: Message) -> bool:
        if isinstance(message.get("type"), str):
            return True
        content = message.get("content")
        return isinstance(content, list) and any(
            isinstance(block, Mapping)
            and str(block.get("type", "")).startswith(("input_text", "output_text", "input_image", "input_file"))
            for block in content
        )

    def read(self, message: Message, position: int) -> tuple[Part, ...]:
        kind = message.get("type", "message" if "role" in message else None)
        require(isinstance(kind, str), f"an item needs a 'type' or a 'role', got type {kind_of(kind)}", position)
        if kind == "message":
            return (_message(message, position),)
        if kind == "reasoning":
            return (_reasoning(message),)
        if kind.endswith("_output") or kind == "mcp_approval_response":
            return (_output(message, kind, position),)
        if kind.endswith("_call") or kind in ("mcp_approval_request", "mcp_list_tools"):
            return (_call(message, kind, position),)
        # Items we do not know (references, compaction items, what comes next year) stay where they are.
        return (Part(Kind.FRAME, extra_tokens=len(text_of(message.get("encrypted_content"))) // 4),)

    def blank(self, message: Message, blocks: frozenset[int] | None) -> Message:
        kind = message.get("type", "message")
        if kind == "computer_call_output":
            return {**message, "output": {"type": "computer_screenshot", "image_url": _PIXEL}}
        if kind in ("function_call_output", "custom_tool_call_output", "local_shell_call_output"):
            return {**message, "output": omitted(message.get("output"))}
        if kind == "message" and message.get("role") == "user":
            return {**message, "content": omitted(message.get("content"))}
        return message


def _message(message: Message, position: int) -> Part:
    role = role_of(message, position)
    texts, media = texts_of(blocks_of(message, position))
    counted, extra = tuple(texts), media * MEDIA_TOKENS
    if role == "assistant":
        thought, action = react.split_turn(join(texts))
        return Part(Kind.TURN, thought=thought, action=action, counted=counted, extra_tokens=extra)
    kind = Kind.WORDS if role == "user" else Kind.FRAME
    static = role in ("system", "developer")
    return Part(kind, text=join(texts), counted=counted, extra_tokens=extra, static=static)


def _reasoning(item: Message) -> Part:
    texts = [
        text_of(block.get("text"))
        for field in ("summary", "content")
        for block in item.get(field) or ()
        if isinstance(block, Mapping)
    ]
    # The encrypted text is billed as the reasoning it hides: about a token per four characters.
    hidden = len(text_of(item.get("encrypted_content"))) // 4
    thought = join(texts)
    return Part(Kind.TURN, thought=thought, counted=(thought,) if thought else (), extra_tokens=hidden, reasons=True)


def _call(item: Message, kind: str, position: int) -> Part:
    waits = kind == "mcp_approval_request" or "call_id" in item
    identity = item.get("id") if kind == "mcp_approval_request" else item.get("call_id")
    if kind in ("function_call", "custom_tool_call") or waits:
        require(isinstance(identity, str), f"a '{kind}' item must have a 'call_id'", position)
    body = next((item[key] for key in ("arguments", "input", "action", "query", "code") if item.get(key)), "")
    action = f"{text_of(item.get('name')) or kind}({body if isinstance(body, str) else as_json(body)})"
    # Hosted tools carry their result inside the call item.
    inside = next((item[key] for key in ("results", "outputs", "output", "result") if item.get(key)), None)
    pieces = [action] if inside is None else [action, inside if isinstance(inside, str) else as_json(inside)]
    return Part(
        Kind.TURN,
        action=join(pieces),
        calls=(str(identity),) if waits else (),
        counted=tuple(pieces),
    )


def _output(item: Message, kind: str, position: int) -> Part:
    field = "approval_request_id" if kind == "mcp_approval_response" else "call_id"
    identity = item.get(field)
    require(isinstance(identity, str), f"a '{kind}' item must have a '{field}'", position)
    output = item.get("output", item.get("approve"))
    extra = 0
    if isinstance(output, str):
        texts = [output] if output else []
    elif isinstance(output, list) and all(isinstance(block, Mapping) and "type" in block for block in output):
        texts, media = texts_of(output)
        extra = media * MEDIA_TOKENS
    elif kind == "computer_call_output":
        texts, extra = [], MEDIA_TOKENS
    else:
        texts = [as_json(output)]
    return Part(Kind.RESULT, text=join(texts), answers=(str(identity),), counted=tuple(texts), extra_tokens=extra)
