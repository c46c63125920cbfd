"""Ollama's `/api/chat`: like Chat Completions, but arguments are objects, and calls mostly have no ids.

A result names the tool that made it. Where that does not tell whose result it is (two calls of one tool in a turn, or
calls with ids), results are matched by their number, and the step keeps a record of all its calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
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
    function_of,
    has_object,
    kind_of,
    long_strings,
    loose_calls,
    role_of,
    text_of,
    thought_and_action,
    with_strings,
)

_KINDS = {"tool": Kind.RESULT, "user": Kind.WORDS}
_ROLES = ("system", "user", "assistant", "tool")


class Ollama(Wire):
    name = "ollama"
    title = "Ollama's chat messages"
    turns_run_on = False

    def knows(self, message: Message) -> bool:
        return message.get("role") in _ROLES and not {"content", "tool_calls", "images"}.isdisjoint(message)

    def read(self, message: Message, position: int) -> tuple[Part, ...]:
        role = role_of(message, position)
        content = message.get("content")
        if not (content is None or isinstance(content, str)):
            raise MessageError(f"'content' must be a str, got {kind_of(content)}", position)
        if role == "assistant":
            return (_turn(message, position),)
        part = Part(
            _KINDS.get(role, Kind.FRAME),
            text=content or "",
            answers=(_answered(message),) if role == "tool" else (),
            counted=(content,) if content else (),
            extra_tokens=_images(message) * MEDIA_TOKENS,
            static=role == "system",
        )
        return (part,)

    def texts(self, message: Message) -> tuple[Text, ...]:
        content = text_of(message.get("content"))
        if message.get("role") != "assistant":
            return (Text(Role.RESULT, content, _answered(message), media=_images(message)),)
        speech = (Text(Role.SPEECH, content),) if content else ()
        calls = loose_calls(message)
        arguments = (
            Text(Role.ARGUMENT, text, key)
            for key, call in zip(_keys(calls), calls, strict=True)
            for text in long_strings(function_of(call).get("arguments"))
        )
        return *speech, *arguments

    def with_texts(self, message: Message, texts: Mapping[int, str]) -> Message:
        if not texts:
            return message
        if message.get("role") != "assistant":
            rest = {key: value for key, value in message.items() if key != "images"}
            return {**(rest if _images(message) else message), "content": texts[0]}
        spoken = bool(text_of(message.get("content")))
        changed = {**message, "content": texts[0]} if spoken and 0 in texts else {**message}
        if calls := message.get("tool_calls"):
            new = map(texts.get, count(int(spoken)))
            changed["tool_calls"] = [_with_arguments(call, new) for call in calls]
        return changed

    def without_calls(self, message: Message, calls: Collection[str], mark: str) -> Message | None:
        made = loose_calls(message)
        stays = [call for key, call in zip(_keys(made), made, strict=True) if key not in calls]
        content = text_of(message.get("content"))
        return {**message, "content": f"{content}\n{mark}" if content else mark, "tool_calls": stays} if stays else None


def _keys(calls: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the name that pairs each call with its result; "" where the name does not tell."""
    names = [text_of(function_of(call).get("name")) for call in calls]
    times = Counter(names)
    return [name if times[name] == 1 and not call.get("id") else "" for name, call in zip(names, calls, strict=True)]


def _answered(message: Message) -> str:
    fields = ("tool_name", "name", "tool_call_id")
    return next((message[field] for field in fields if isinstance(message.get(field), str)), "")


def _images(message: Message) -> int:
    images = message.get("images")
    return len(images) if isinstance(images, list | tuple) else 0


def _with_arguments(call: Mapping[str, Any], new: Iterator[str | None]) -> Mapping[str, Any]:
    if not isinstance(call, Mapping) or not has_object(call):
        return call
    old = call["function"]["arguments"]
    changed = with_strings(old, new)
    return call if changed == old else {**call, "function": {**call["function"], "arguments": changed}}


def _turn(message: Message, position: int) -> Part:
    calls = message.get("tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise MessageError(f"'tool_calls' must be a list, got {kind_of(calls)}", position)
    for number, call in enumerate(calls):
        if not (isinstance(call, Mapping) and text_of(function_of(call).get("name"))):
            raise MessageError(f"tool call {number} must be a dict that names its function", position)
    bodies = [(body["name"], body.get("arguments")) for body in map(function_of, calls)]
    actions = [f"{name}({given if isinstance(given, str) else as_json(given or {})})" for name, given in bodies]
    spoken = [text_of(message.get("thinking")), text_of(message.get("content"))]
    thought, action = thought_and_action(spoken, actions)
    keys = _keys(calls)
    return Part(
        Kind.TURN,
        thought=thought,
        action=action,
        calls=tuple(filter(None, keys)),
        made=tuple(made for key, made in zip(keys, actions, strict=True) if key),
        unseen_calls=keys.count(""),
        counted=tuple(filter(None, (*spoken, *actions))),
        extra_tokens=_images(message) * MEDIA_TOKENS,
    )
