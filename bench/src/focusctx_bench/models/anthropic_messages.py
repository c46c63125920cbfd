"""Chat Completions ↔ Anthropic Messages: the same history in the other API's words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from focusctx.types import Message
from focusctx.wire.chat_completions import SYSTEM_ROLES

_MARK = {"cache_control": {"type": "ephemeral"}}
_SILENCE = "(nothing said)"
"""This API refuses empty texts."""
_BEGINNING = "(The conversation begins.)"

Block = dict[str, Any]


def request(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`system`, `messages` and `tools`, with cache marks where the next request will go on from."""
    system = [_text(message.get("content")) for message in messages if message["role"] in SYSTEM_ROLES]
    body: dict[str, Any] = {"messages": _turns(messages)}
    if system:
        body["system"] = [*system[:-1], system[-1] | _MARK]
    if tools:
        body["tools"] = [_tool(tool["function"]) for tool in tools]
    if body["messages"]:
        blocks = body["messages"][-1]["content"]
        blocks[-1] = blocks[-1] | _MARK
    return body


def message(content: Sequence[Mapping[str, Any]]) -> Message:
    """The content of an answer as a Chat Completions message; thinking travels along, untouched."""
    said = "".join(block["text"] for block in content if block["type"] == "text")
    calls = [_call(block) for block in content if block["type"] == "tool_use"]
    thinking = [dict(block) for block in content if block["type"] in ("thinking", "redacted_thinking")]
    found: dict[str, Any] = {"role": "assistant", "content": said or (None if calls else "")}
    if thinking:
        found["thinking_blocks"] = thinking
    return {**found, "tool_calls": calls} if calls else found


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """User and assistant by turns: results and words that come together share one user message."""
    turns: list[dict[str, Any]] = []
    for given in messages:
        if given["role"] in SYSTEM_ROLES:
            continue
        role = "assistant" if given["role"] == "assistant" else "user"
        if not turns and role == "assistant":  # this API wants the user to begin
            turns.append({"role": "user", "content": [_text(_BEGINNING)]})
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"].extend(_blocks(given))
    return turns


def _blocks(given: Message) -> list[Block]:
    if given["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": given["tool_call_id"], "content": given.get("content") or ""}]
    calls = [_use(call) for call in given.get("tool_calls") or ()]
    words = [_text(given.get("content"))] if given.get("content") or not calls else []
    return [*given.get("thinking_blocks", ()), *words, *calls]


def _text(content: Any) -> Block:
    return {"type": "text", "text": content or _SILENCE}


def _use(call: Mapping[str, Any]) -> Block:
    function = call["function"]
    return {
        "type": "tool_use",
        "id": call["id"],
        "name": function["name"],
        "input": json.loads(function["arguments"] or "{}"),
    }


def _call(block: Mapping[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(block["input"], ensure_ascii=False)
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    empty = {"type": "object", "properties": {}}
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "input_schema": function.get("parameters") or empty,
    }
