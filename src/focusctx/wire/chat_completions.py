"""OpenAI Chat Completions, and all APIs that imitate it (including DeepSeek's `reasoning_content`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import count
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
    function_of,
    has_content,
    join,
    kind_of,
    long_strings,
    parsed_arguments,
    result_text,
    role_of,
    text_of,
    texts_of,
    thought_and_action,
    with_strings,
)

SYSTEM_ROLES = ("system", "developer")
_ROLES = (*SYSTEM_ROLES, "user", "assistant", "tool", "function")
AS_WRITTEN = "focusctx_as_written"
"""Field by which an integration says that a turn must stay as the model wrote it."""
_REASONING = ("thinking_blocks", "reasoning_content", "reasoning_details", AS_WRITTEN)
"""Fields in which gateways put a model's thinking, for models that must see how a turn began."""


class ChatCompletions(Wire):
    name = "chat_completions"
    title = "OpenAI Chat Completions"
    turns_run_on = False

    def knows(self, message: Message) -> bool:
        return has_content(message, _ROLES)

    def read(self, message: Message, position: int) -> tuple[Part, ...]:
        role = role_of(message, position)
        texts, media = texts_of(blocks_of(message, position))
        if role == "assistant":
            return (_turn(message, position, texts, media),)
        answers = (_answered(message, role, position),) if role in ("tool", "function") else ()
        kind = Kind.RESULT if answers else Kind.WORDS if role == "user" else Kind.FRAME
        extra = media * MEDIA_TOKENS
        static = role in SYSTEM_ROLES
        return (Part(kind, join(texts), answers=answers, counted=tuple(texts), extra_tokens=extra, static=static),)

    def texts(self, message: Message) -> tuple[Text, ...]:
        content = message.get("content")
        if message.get("role") != "assistant":
            return (result_text(content, text_of(message.get("tool_call_id"))),)
        speech = (Text(Role.SPEECH, content),) if isinstance(content, str) and content else ()
        return *speech, *(
            Text(Role.ARGUMENT, text, text_of(call.get("id")))
            for call in message.get("tool_calls") or ()
            if (arguments := parsed_arguments(function_of(call).get("arguments"))) is not None
            for text in long_strings(arguments)
        )

    def with_texts(self, message: Message, texts: Mapping[int, str]) -> Message:
        if message.get("role") != "assistant":
            return {**message, "content": texts.get(0, message.get("content"))}
        changed = {**message}
        content = message.get("content")
        spoken = bool(isinstance(content, str) and content)
        if spoken and 0 in texts:
            changed["content"] = texts[0]
        if message.get("tool_calls"):
            new = map(texts.get, count(int(spoken)))
            changed["tool_calls"] = [_with_arguments(call, new) for call in message["tool_calls"]]
        return changed

    def without_calls(self, message: Message, calls: Collection[str], mark: str) -> Message | None:
        stays = [call for call in message.get("tool_calls") or () if call.get("id") not in calls]
        if not stays:
            return None
        content = message.get("content") or ""
        if isinstance(content, str):
            marked: object = f"{content}\n{mark}" if content else mark
        else:
            marked = [*content, {"type": "text", "text": mark}]
        return {**message, "content": marked, "tool_calls": stays}


def _with_arguments(call: Mapping[str, Any], new: Iterator[str | None]) -> Mapping[str, Any]:
    arguments = parsed_arguments(function_of(call).get("arguments"))
    if arguments is None:
        return call
    changed = with_strings(arguments, new)
    if changed == arguments:
        return call
    return {**call, "function": {**call["function"], "arguments": as_json(changed)}}


def _turn(message: Message, position: int, texts: list[str], media: int) -> Part:
    calls, actions = _calls(message, position)
    hidden = text_of(message.get("reasoning_content") or message.get("reasoning"))
    refusal = text_of(message.get("refusal"))
    thought, action = thought_and_action([hidden, *texts, refusal], actions)
    return Part(
        Kind.TURN,
        thought=thought,
        action=action,
        calls=calls,
        made=tuple(actions),
        counted=tuple(filter(None, (hidden, *texts, refusal, *actions))),
        extra_tokens=(media + bool(message.get("audio"))) * MEDIA_TOKENS,
        reasons=any(map(message.get, _REASONING)),
    )


def _calls(message: Message, position: int) -> tuple[tuple[str, ...], list[str]]:
    """Return the ids of the message's tool calls, and the text of each call."""
    ids, actions = [], []
    legacy = message.get("function_call")
    if legacy is not None:
        if not isinstance(legacy, Mapping):
            raise MessageError(f"'function_call' must be a dict, got {kind_of(legacy)}", position)
        ids.append(_legacy_id(legacy.get("name")))
        actions.append(_action(legacy.get("name"), legacy.get("arguments")))
    calls = message.get("tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise MessageError(f"'tool_calls' must be a list, got {kind_of(calls)}", position)
    for number, call in enumerate(calls):
        if not (isinstance(call, Mapping) and isinstance(call.get("id"), str)):
            raise MessageError(f"tool call {number} must be a dict with an 'id'", position)
        body = call.get("function") or call.get("custom") or {}
        if not isinstance(body, Mapping):
            raise MessageError(f"tool call {number} must name its function", position)
        ids.append(call["id"])
        actions.append(_action(body.get("name"), body.get("arguments", body.get("input"))))
    return tuple(ids), actions


def _action(name: object, arguments: object) -> str:
    # Some servers and logs have objects in place of JSON text.
    return f"{text_of(name)}({as_json(arguments) if isinstance(arguments, Mapping) else text_of(arguments)})"


def _answered(message: Message, role: str, position: int) -> str:
    if role == "function":
        return _legacy_id(message.get("name"))
    answered = message.get("tool_call_id")
    if not isinstance(answered, str):
        raise MessageError(f"'tool_call_id' must be a str, got {kind_of(answered)}", position)
    return answered


def _legacy_id(name: object) -> str:
    """Return an id for a legacy function call, which has none: call and result share only the function's name."""
    return f"function:{text_of(name)}"
