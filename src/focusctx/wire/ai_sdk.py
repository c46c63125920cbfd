"""Vercel's AI SDK: `ModelMessage`s, and the prompts that its language models get (`LanguageModelV2Prompt` and later).

Calls are parts of assistant messages, results are parts of tool messages. A tool that the provider runs itself has its
call and its result in assistant messages. Provider options, images and files are never changed, unless a result that
holds them is shortened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
    kind_of,
    long_strings,
    result_text,
    role_of,
    text_of,
    texts_of,
    thought_and_action,
    with_block_texts,
    with_mark,
    with_strings,
)

_AS_WRITTEN = frozenset({"reasoning", "reasoning-file", "tool-approval-request"})
"""Types of parts beside which a turn stays as it is: answers to requests for approval do not name the call."""


class AiSdk(Wire):
    name = "ai_sdk"
    title = "ModelMessages of the AI SDK"
    turns_run_on = True  # some providers join consecutive assistant messages

    def knows(self, message: Message) -> bool:
        return has_content(message, ("system", "user", "assistant", "tool"))

    def read(self, message: Message, position: int) -> tuple[Part, ...]:
        role = role_of(message, position)
        content = blocks_of(message, position)
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if role == "assistant":
            return (_turn(parts, position),)
        if role == "tool":
            return (_result(content, position),)
        texts, media = texts_of(parts)
        kind = Kind.WORDS if role == "user" else Kind.FRAME
        extra = media * MEDIA_TOKENS
        return (Part(kind, join(texts), counted=tuple(texts), extra_tokens=extra, static=role == "system"),)

    def texts(self, message: Message) -> tuple[Text, ...]:
        content = message.get("content")
        role = message.get("role")
        if role not in ("assistant", "tool"):
            return (result_text(content),)  # an observation in plain text
        if not isinstance(content, list | tuple):
            return (Text(Role.SPEECH if role == "assistant" else Role.RESULT, text_of(content)),)
        speaks = role == "assistant"
        return tuple(text for number, part in enumerate(content) for text in _texts(part, number, speaks))

    def with_texts(self, message: Message, texts: Mapping[int, str]) -> Message:
        content = message.get("content")
        old = self.texts(message)
        if len(old) == 1 and old[0].block is None:
            if 0 not in texts:
                return message
            listed = isinstance(content, list | tuple)
            return {**message, "content": [{"type": "text", "text": texts[0]}] if listed else texts[0]}
        return {**message, "content": with_block_texts(content, old, texts, _with_part)}

    def without_calls(self, message: Message, calls: Collection[str], mark: str) -> Message | None:
        content = message.get("content")
        if not isinstance(content, list | tuple):
            return None
        stays = [part for part in content if not (isinstance(part, Mapping) and part.get("toolCallId") in calls)]
        marked = with_mark(stays, _is_call, mark)
        return None if marked is None else {**message, "content": marked}


def _is_call(part: object) -> bool:
    """True for a call that the agent has to answer."""
    return isinstance(part, Mapping) and part.get("type") == "tool-call" and not part.get("providerExecuted")


def _texts(part: object, number: int, speaks: bool) -> Iterator[Text]:
    """Yield the texts of a part that may be shortened. Results of tools that the provider runs stay as they are."""
    if not isinstance(part, Mapping):
        return
    kind = part.get("type")
    if kind == "tool-result" and not speaks:
        text, media = _output(part.get("output"))
        yield Text(Role.RESULT, text, text_of(part.get("toolCallId")), number, media)
    elif kind == "text" and speaks:
        yield Text(Role.SPEECH, text_of(part.get("text")), block=number)
    elif _is_call(part):
        call = text_of(part.get("toolCallId"))
        yield from (Text(Role.ARGUMENT, text, call, number) for text in long_strings(part.get("input")))


def _with_part(part: Mapping[str, Any], new: Sequence[str | None]) -> Mapping[str, Any]:
    """Return the part with new texts."""
    if part.get("type") == "tool-call":
        return {**part, "input": with_strings(part.get("input"), iter(new))}
    if part.get("type") == "text":
        return {**part, "text": new[0]}
    return {**part, "output": _with_output(part.get("output"), str(new[0]))}


def _output(output: object) -> tuple[str, int]:
    """Return the text of a tool's output, and the number of images and files in it."""
    if not isinstance(output, Mapping):
        return text_of(output), 0
    kind, value = output.get("type"), output.get("value")
    if kind == "execution-denied":
        return text_of(output.get("reason")), 0
    if kind == "content" and isinstance(value, list | tuple):
        texts, media = texts_of([part for part in value if isinstance(part, Mapping)])
        return join(texts), media
    return (value if isinstance(value, str) else "" if value is None else as_json(value)), 0


def _with_output(output: object, text: str) -> Mapping[str, Any]:
    """Return an output with another text. It stays an error if it was one: that a call failed must not be lost."""
    if not isinstance(output, Mapping):
        return {"type": "text", "value": text}
    if output.get("type") == "execution-denied":
        return {**output, "reason": text}
    failed = text_of(output.get("type")).startswith("error")
    return {**output, "type": "error-text" if failed else "text", "value": text}


def _identity(part: Mapping[str, Any], position: int) -> str:
    identity = part.get("toolCallId")
    if not isinstance(identity, str):
        problem = f"'toolCallId' of a '{part['type']}' part must be a str, got {kind_of(identity)}"
        raise MessageError(problem, position)
    return identity


def _turn(parts: Sequence[Mapping[str, Any]], position: int) -> Part:
    thoughts: list[str] = []
    actions: list[str] = []
    made: dict[str, str] = {}
    served: list[str] = []
    answered: list[str] = []
    extra = 0
    answered_here = {part.get("toolCallId") for part in parts if part["type"] == "tool-result"}
    for part in parts:
        kind = part["type"]
        if kind in ("text", "reasoning"):
            thoughts.append(text_of(part.get("text")))
        elif kind == "tool-call":
            actions.append(f"{text_of(part.get('toolName'))}({as_json(part.get('input', {}))})")
            identity = _identity(part, position)
            if part.get("providerExecuted") or identity in answered_here:
                served.append(identity)
            else:
                made[identity] = actions[-1]
        elif kind == "tool-result":
            answered.append(_identity(part, position))
            text, media = _output(part.get("output"))
            actions.append(text)
            extra += media * MEDIA_TOKENS
        elif kind != "tool-approval-request":
            extra += MEDIA_TOKENS
    thought, action = thought_and_action(thoughts, actions)
    return Part(
        Kind.TURN,
        thought=thought,
        action=action,
        calls=tuple(made),
        made=tuple(made.values()),
        answers=tuple(answered),
        counted=tuple(text for text in (*thoughts, *actions) if text),
        extra_tokens=extra,
        holds=tuple(served),
        reasons=any(part["type"] in _AS_WRITTEN for part in parts),
    )


def _result(content: str | Sequence[Mapping[str, Any]], position: int) -> Part:
    if isinstance(content, str):
        raise MessageError("a 'tool' message must have a list of 'tool-result' parts as its 'content'", position)
    results = [part for part in content if part["type"] == "tool-result"]
    outputs = [_output(part.get("output")) for part in results]
    texts = [text for text, _ in outputs if text]
    return Part(
        Kind.RESULT,
        text=join(texts),
        answers=tuple(_identity(part, position) for part in results),
        counted=tuple(texts),
        extra_tokens=sum(media for _, media in outputs) * MEDIA_TOKENS,
    )
