"""LangChain messages, as `model_dump` writes them, or inside the `data` that `messages_to_dict` adds.

An AI message may hold its calls a second time: as blocks of its content, or in the provider's own form in
`additional_kwargs`. LangChain reads one or the other, depending on the provider, so such a turn is never altered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any

from ..errors import MessageError
from ..types import Message
from . import react
from .part import (
    MEDIA_TOKENS,
    Kind,
    Part,
    Role,
    Text,
    as_json,
    join,
    kind_of,
    long_strings,
    result_text,
    text_of,
    texts_of,
    with_strings,
)

_KINDS = {"human": Kind.WORDS, "ai": Kind.TURN, "tool": Kind.RESULT, "system": Kind.FRAME}
_UNTOUCHED = ("chat", "function", "remove")
_CALL_BLOCKS = frozenset(
    {"tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call", "function_call", "input_json_delta"}
)
"""Blocks that repeat a call of the message."""
_REASONING_BLOCKS = ("thinking", "redacted_thinking", "reasoning", "reasoning_content")
_MEDIA_BLOCKS = ("image", "image_url", "audio", "video", "file", "document")


class LangChain:
    name = "langchain"
    title = "LangChain messages"
    turns_run_on = False

    def claims(self, message: Message) -> bool:
        return is_dump(message)

    def knows(self, message: Message) -> bool:
        return is_dump(message) and dumped_type(message) in _KINDS

    def read(self, message: Message, position: int) -> tuple[Part, ...]:
        if not isinstance(message.get("type"), str):
            raise MessageError(f"'type' must be a str, got {kind_of(message.get('type'))}", position)
        body, said = body_of(message), dumped_type(message)
        blocks = _blocks(body, position)
        kind = _KINDS.get(said, Kind.FRAME)
        if kind is Kind.TURN and not _is_legacy(body):
            return (_turn(body, blocks, position),)
        kind = Kind.FRAME if kind is Kind.TURN else kind
        answers: tuple[str, ...] = ()
        if kind is Kind.RESULT:
            if not isinstance(body.get("tool_call_id"), str):
                raise MessageError(f"'tool_call_id' must be a str, got {kind_of(body.get('tool_call_id'))}", position)
            answers = (body["tool_call_id"],)
        texts, media = texts_of(blocks)
        extra = media * MEDIA_TOKENS
        static = said == "system"
        return (Part(kind, join(texts), answers=answers, counted=tuple(texts), extra_tokens=extra, static=static),)

    def texts(self, message: Message) -> tuple[Text, ...]:
        body = body_of(message)
        content = body.get("content")
        if dumped_type(message) != "ai":
            return (result_text(_as_blocks(content), text_of(body.get("tool_call_id"))),)
        if _repeats_calls(body) or not isinstance(content, str):
            return ()
        speech = (Text(Role.SPEECH, content),) if content else ()
        return *speech, *(
            Text(Role.ARGUMENT, text, text_of(call.get("id")))
            for call in _loose_calls(body)
            for text in long_strings(call.get("args"))
        )

    def with_texts(self, message: Message, texts: Mapping[int, str]) -> Message:
        if not texts:
            return message
        body = body_of(message)
        content = body.get("content")
        if dumped_type(message) != "ai":
            return _with_body(message, {"content": texts[0]})
        spoken = bool(content)
        changed: dict[str, Any] = {"content": texts[0]} if spoken and 0 in texts else {}
        if calls := _loose_calls(body):
            new = map(texts.get, count(int(spoken)))
            changed["tool_calls"] = [
                {**call, "args": with_strings(call["args"], new)} if "args" in call else call for call in calls
            ]
        return _with_body(message, changed)

    def without_calls(self, message: Message, calls: Collection[str], mark: str) -> Message | None:
        return None

    def can_lose_calls(self, messages: Sequence[Message]) -> bool:
        return False


def is_dump(message: Message) -> bool:
    """True for a message in one of LangChain's dumps; a message of type `chat` has a role of its own."""
    kind = dumped_type(message)
    if kind not in _KINDS and kind not in _UNTOUCHED:
        return False
    if isinstance(message.get("data"), Mapping):
        return True
    return "content" in message and ("role" not in message or kind == "chat")


def dumped_type(message: Message) -> str:
    """Return the type of a dump, such as `human` or `ai`; chunks of a stream have the type of what they add up to."""
    return text_of(message.get("type")).removesuffix("MessageChunk").lower()


def body_of(message: Message) -> Mapping[str, Any]:
    """Return the object that holds a dump's fields."""
    data = message.get("data")
    return data if isinstance(data, Mapping) else message


def calls_in(message: Message, field: str = "tool_calls") -> list[str]:
    """Return the ids of an AI message's calls: the valid ones, or those of another field."""
    if dumped_type(message) != "ai":
        return []
    return [call["id"] for call in _loose_calls(body_of(message), field) if isinstance(call.get("id"), str)]


def _with_body(message: Message, changed: Mapping[str, Any]) -> Message:
    body = {**body_of(message), **changed}
    return {**message, "data": body} if isinstance(message.get("data"), Mapping) else body


def _blocks(body: Mapping[str, Any], position: int) -> list[Mapping[str, Any]]:
    content = body.get("content")
    if not (content is None or isinstance(content, str | list | tuple)):
        raise MessageError(f"'content' must be a str or a list of blocks, got {kind_of(content)}", position)
    for number, block in enumerate(content if isinstance(content, list | tuple) else ()):
        if not isinstance(block, str | Mapping):
            raise MessageError(f"content block {number} must be a str or a dict, got {kind_of(block)}", position)
    return _as_blocks(content)


def _as_blocks(content: object) -> list[Mapping[str, Any]]:
    """Return the content as a list of blocks; LangChain allows texts among them."""
    blocks = content if isinstance(content, list | tuple) else [content] if content else []
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    return [block for block in blocks if isinstance(block, Mapping)]


def _loose_calls(body: Mapping[str, Any], field: str = "tool_calls") -> list[Mapping[str, Any]]:
    """Return the calls unchecked, with empty ones in place of what is not an object."""
    calls = body.get(field)
    return [call if isinstance(call, Mapping) else {} for call in (calls if isinstance(calls, list | tuple) else ())]


def _more(body: Mapping[str, Any]) -> Mapping[str, Any]:
    more = body.get("additional_kwargs")
    return more if isinstance(more, Mapping) else {}


def _is_legacy(body: Mapping[str, Any]) -> bool:
    """True for a turn with a call that a `function` message answers: both stay where they are."""
    return bool(_more(body).get("function_call"))


def _repeats_calls(body: Mapping[str, Any]) -> bool:
    return bool(_more(body).get("tool_calls") or body.get("tool_call_chunks"))


def _turn(body: Mapping[str, Any], blocks: Sequence[Mapping[str, Any]], position: int) -> Part:
    made: dict[str, str] = {}
    for field in ("tool_calls", "invalid_tool_calls"):
        calls = body.get(field) or ()
        if not isinstance(calls, list | tuple):
            raise MessageError(f"'{field}' must be a list, got {kind_of(calls)}", position)
        for number, call in enumerate(calls):
            if field == "invalid_tool_calls" and isinstance(call, Mapping) and call.get("id") is None:
                continue  # nothing can answer it
            if not (isinstance(call, Mapping) and isinstance(call.get("id"), str)):
                raise MessageError(f"entry {number} of '{field}' must be a dict with an 'id'", position)
            given = call.get("args")
            made[call["id"]] = f"{text_of(call.get('name'))}({given if isinstance(given, str) else as_json(given)})"
    kinds = [text_of(block.get("type")) for block in blocks]
    thoughts = [text_of(_more(body).get("reasoning_content"))]
    thoughts += [_shown(block) for block, kind in zip(blocks, kinds, strict=True) if kind not in _MEDIA_BLOCKS]
    thought, action = join(thoughts), join(list(made.values()))
    if not made:
        thought, action = react.split_turn(thought)
    return Part(
        Kind.TURN,
        thought=thought,
        action=action,
        calls=tuple(made),
        made=tuple(made.values()),
        counted=tuple(filter(None, (*thoughts, *made.values()))),
        extra_tokens=sum(kind in _MEDIA_BLOCKS for kind in kinds) * MEDIA_TOKENS,
        reasons=bool(thoughts[0]) or any(kind in _REASONING_BLOCKS for kind in kinds),
    )


def _shown(block: Mapping[str, Any]) -> str:
    """Return the text of a block of a turn: nothing for a call, and JSON for tools that the provider runs."""
    kind = text_of(block.get("type"))
    if kind in _CALL_BLOCKS:
        return ""
    found = next((block[key] for key in ("text", "thinking", "reasoning") if isinstance(block.get(key), str)), None)
    return as_json(block) if found is None else found
