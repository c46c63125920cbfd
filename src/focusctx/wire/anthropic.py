"""Anthropic Messages: content blocks; one message may hold both tool results and the user's words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import MessageError
from ..types import Message
from .part import (
    MEDIA_TOKENS,
    Kind,
    Part,
    Role,
    Text,
    Wire,
    as_json,
    blocks_of,
    has_content,
    join,
    long_strings,
    result_text,
    role_of,
    text_of,
    texts_of,
    thought_and_action,
    typed_blocks,
    with_block_texts,
    with_mark,
    with_strings,
)

THINKING = frozenset({"thinking", "redacted_thinking"})


class AnthropicMessages(Wire):
    name = "anthropic"
    title = "Anthropic Messages"
    turns_run_on = True

    def knows(self, message: Message) -> bool:
        return has_content(message, ("system", "user", "assistant"))

    def read(self, message: Message, position: int) -> tuple[Part, ...]:
        role = role_of(message, position)
        content = blocks_of(message, position)
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if role == "assistant":
            return (_turn(blocks, position),)
        if role != "user":
            return (replace(_spoken(Kind.FRAME, blocks, None), static=role == "system"),)
        results = tuple(number for number, block in enumerate(blocks) if block["type"] == "tool_result")
        if not results:
            return (_spoken(Kind.WORDS, blocks, None),)
        result = _result([blocks[number] for number in results], position)
        if len(results) == len(blocks):
            return (result,)
        words = tuple(number for number in range(len(blocks)) if number not in results)
        spoken = _spoken(Kind.WORDS, [blocks[number] for number in words], words)
        return (replace(result, blocks=results), spoken)

    def texts(self, message: Message) -> tuple[Text, ...]:
        content = message.get("content")
        speaks = message.get("role") == "assistant"
        if not isinstance(content, list | tuple):
            return (Text(Role.SPEECH if speaks else Role.RESULT, text_of(content)),)
        if not speaks and not any(kind == "tool_result" for kind, _ in typed_blocks(message)):
            return (result_text(content),)  # an observation in plain text
        return tuple(text for number, block in enumerate(content) for text in _texts(block, number))

    def with_texts(self, message: Message, texts: Mapping[int, str]) -> Message:
        content = message.get("content")
        old = self.texts(message)
        if len(old) == 1 and old[0].block is None:
            return {**message, "content": texts.get(0, content)}
        return {**message, "content": with_block_texts(content, old, texts, _with_block)}

    def without_calls(self, message: Message, calls: Collection[str], mark: str) -> Message | None:
        content = message.get("content")
        stays = [block for block in content or () if isinstance(block, Mapping) and block.get("id") not in calls]
        marked = with_mark(stays, lambda block: block.get("type") == "tool_use", mark)
        return None if marked is None else {**message, "content": marked}


def _texts(block: Mapping[str, Any], number: int) -> Iterator[Text]:
    """Yield the texts of a content block."""
    kind = block.get("type")
    if kind == "tool_result":
        yield result_text(block.get("content"), text_of(block.get("tool_use_id")), number)
    elif kind == "text":
        yield Text(Role.SPEECH, text_of(block.get("text")), block=number)
    elif kind == "tool_use":
        yield from (
            Text(Role.ARGUMENT, text, text_of(block.get("id")), number) for text in long_strings(block.get("input"))
        )


def _with_block(block: Mapping[str, Any], new: Sequence[str | None]) -> Mapping[str, Any]:
    """Return the block with new texts. `is_error` and cache marks stay: that a call failed must not be lost."""
    if block.get("type") == "tool_use":
        return {**block, "input": with_strings(block.get("input"), iter(new))}
    return {**block, "text" if block.get("type") == "text" else "content": new[0]}


def _turn(blocks: Sequence[Mapping[str, Any]], position: int) -> Part:
    thoughts: list[str] = []
    actions: list[str] = []
    calls: list[str] = []
    made: list[str] = []
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
            if kind == "tool_use":
                made.append(actions[-1])
            (calls if kind == "tool_use" else served).append(block["id"])
        elif kind.endswith("tool_result"):
            answered.append(text_of(block.get("tool_use_id")))
            actions.append(as_json(block.get("content")))
        else:
            extra += MEDIA_TOKENS
    thought, action = thought_and_action(thoughts, actions)
    return Part(
        Kind.TURN,
        thought=thought,
        action=action,
        calls=tuple(calls),
        made=tuple(made),
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
