"""Anthropic Messages: content blocks; one message may hold both tool results and the user's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import MessageError
from ..types import Message
from . import react
from .part import (
    MEDIA_TOKENS,
    Kind,
    Part,
    as_json,
    blocks_of,
    has_content,
    join,
    omitted,
    role_of,
    text_of,
    texts_of,
    typed_blocks,
)

THINKING = frozenset({"thinking", "redacted_thinking"})
_ONLY_HERE = THINKING | {
    "tool_use",
    "tool_result",
    "server_tool_use",
    "document",
    "mcp_tool_use",
    "search_result",
}
_ONLY_IN_DUMPS = frozenset({"stop_reason", "stop_sequence"})
"""Fields of an answer that was put into the history as dumped by the SDK, with `"type": "message"`."""


class AnthropicMessages:
    name = "anthropic"
    turns_run_on = True

    def claims(self, message: Message) -> bool:
        return not _ONLY_IN_DUMPS.isdisjoint(message) or any(
            kind in _ONLY_HERE or (kind == "image" and "source" in block) for kind, block in typed_blocks(message)
        )

    def knows(self, message: Message) -> bool:
        return has_content(message, ("system", "user", "assistant"))

    def read(self, message: Message, position: int) -> tuple[Part, ...]:
        role = role_of(message, position)
        content = blocks_of(message, position)
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if role == "assistant":
            return (_turn(blocks, position),)
        if role != "user":
            return (_spoken(Kind.FRAME, blocks, None)._replace(static=role == "system"),)
        results = tuple(number for number, block in enumerate(blocks) if block["type"] == "tool_result")
        if not results:
            return (_spoken(Kind.WORDS, blocks, None),)
        result = _result([blocks[number] for number in results], position)
        if len(results) == len(blocks):
            return (result,)
        words = tuple(number for number in range(len(blocks)) if number not in results)
        spoken = _spoken(Kind.WORDS, [blocks[number] for number in words], words)
        return (result._replace(blocks=results), spoken)

    def blank(self, message: Message, blocks: frozenset[int] | None) -> Message:
        if message.get("role") != "user":
            return message
        content = message["content"]
        if not any(kind == "tool_result" for kind, _ in typed_blocks(message)):
            return {**message, "content": omitted(content)}  # an observation in plain text
        # `is_error` and cache marks stay: the fact that a call failed is worth more than its output.
        return {
            **message,
            "content": [
                {**block, "content": omitted(block["content"])}
                if block.get("type") == "tool_result" and "content" in block and (blocks is None or number in blocks)
                else block
                for number, block in enumerate(content)
            ],
        }


def _turn(blocks: Sequence[Mapping[str, Any]], position: int) -> Part:
    thoughts: list[str] = []
    actions: list[str] = []
    calls: list[str] = []
    served: list[str] = []
    answered: list[str] = []
    extra = 0
    for block in blocks:
        kind = block["type"]
        if kind == "text" or kind in THINKING:
            thoughts.append(text_of(block.get("text") or block.get("thinking")))
        elif kind.endswith("tool_use"):
            if not isinstance(block.get("id"), str):
                raise MessageError(f"a '{kind}' block must have an 'id'", position)
            actions.append(f"{text_of(block.get('name'))}({as_json(block.get('input', {}))})")
            (calls if kind == "tool_use" else served).append(block["id"])
        elif kind.endswith("tool_result"):
            answered.append(text_of(block.get("tool_use_id")))
            actions.append(as_json(block.get("content")))
        else:
            extra += MEDIA_TOKENS
    thought, action = join(thoughts), join(actions)
    if not actions:
        thought, action = react.split_turn(thought)
    return Part(
        Kind.TURN,
        thought=thought,
        action=action,
        calls=tuple(calls),
        answers=tuple(answered),
        counted=tuple(text for text in (*thoughts, *actions) if text),
        extra_tokens=extra,
        # The server usually answers in the same message, but code it runs may call the agent's tools first.
        holds=tuple(served),
        reasons=any(block["type"] in THINKING for block in blocks),
    )


def _result(blocks: Sequence[Mapping[str, Any]], position: int) -> Part:
    answers: list[str] = []
    texts: list[str] = []
    extra = 0
    for block in blocks:
        if not isinstance(block.get("tool_use_id"), str):
            raise MessageError("a 'tool_result' must have a 'tool_use_id'", position)
        answers.append(block["tool_use_id"])
        inner, media = texts_of(blocks_of(block, position))
        texts += inner
        extra += media * MEDIA_TOKENS
    return Part(Kind.RESULT, text=join(texts), answers=tuple(answers), counted=tuple(texts), extra_tokens=extra)


def _spoken(kind: Kind, blocks: Sequence[Mapping[str, Any]], numbers: tuple[int, ...] | None) -> Part:
    texts, media = texts_of(blocks)
    return Part(kind, text=join(texts), counted=tuple(texts), extra_tokens=media * MEDIA_TOKENS, blocks=numbers)
