"""Gemini contents: `parts` with text, calls and results, in the API's camelCase or in the Python SDK's snake_case.

Calls and results often have no ids (the SDK's automatic function calling sends results without them), so they pair by
name and by their order in one content: `look`, `look#2`. A part with a `thoughtSignature` is never altered: newer
models reject a call whose signature is missing or changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

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
    join,
    kind_of,
    long_strings,
    text_of,
    thought_and_action,
    with_block_texts,
    with_strings,
)

ROLES = (None, "user", "model", "function")
"""A content without a role is the user's. Older agents send results with the role `function`."""
_CALL = ("functionCall", "function_call")
_RESULT = ("functionResponse", "function_response")
_SIGNATURE = ("thoughtSignature", "thought_signature")
_MEDIA = ("inlineData", "inline_data", "fileData", "file_data")
Block: TypeAlias = Mapping[str, Any]
Field: TypeAlias = tuple[str, ...]
"""A field of a part, in each of its spellings."""


class Gemini(Wire):
    name = "gemini"
    title = "Gemini contents"
    turns_run_on = True

    def knows(self, message: Message) -> bool:
        return message.get("role") in ROLES and "parts" in message

    def read(self, message: Message, position: int) -> tuple[Part, ...]:
        role = message.get("role")
        if not (role is None or isinstance(role, str)):
            raise MessageError(f"'role' must be a str, got {kind_of(role)}", position)
        blocks = _blocks(message, position)
        if role == "model":
            return (_turn(blocks, position),)
        results = tuple(number for number, block in enumerate(blocks) if _key(block, _RESULT))
        if not results:
            return (_spoken(Kind.WORDS if self.knows(message) else Kind.FRAME, blocks, None),)
        result = _result(blocks, position)
        if len(results) == len(blocks):
            return (result,)
        words = tuple(number for number in range(len(blocks)) if number not in results)
        spoken = _spoken(Kind.WORDS, [blocks[number] for number in words], words)
        return (replace(result, blocks=results), spoken)

    def texts(self, message: Message) -> tuple[Text, ...]:
        blocks = _loose_blocks(message)
        if message.get("role") == "model":
            calls = _pair_keys(blocks, _CALL)
            return tuple(
                text for number, block in enumerate(blocks) for text in _own_texts(block, number, calls.get(number, ""))
            )
        results = _pair_keys(blocks, _RESULT)
        if not results:  # an observation in plain text
            texts, media = _texts_and_media(blocks)
            return (Text(Role.RESULT, join(texts), media=media),)
        return tuple(
            Text(Role.RESULT, _shown(blocks[number]), call, number, _media_in(blocks[number]))
            for number, call in results.items()
        )

    def with_texts(self, message: Message, texts: Mapping[int, str]) -> Message:
        if not texts:
            return message
        old = self.texts(message)
        if len(old) == 1 and old[0].block is None:
            return {**message, "parts": [{"text": texts[0]}]}
        return {**message, "parts": with_block_texts(message.get("parts"), old, texts, _with_block)}

    def without_calls(self, message: Message, calls: Collection[str], mark: str) -> Message | None:
        blocks = _loose_blocks(message)
        keys = _pair_keys(blocks, _CALL)
        stay = [number for number in range(len(blocks)) if keys.get(number) not in calls]
        first = next((place for place, number in enumerate(stay) if number in keys), None)
        if first is None:
            return None
        left = [blocks[number] for number in stay]
        return {**message, "parts": [*left[:first], {"text": mark}, *left[first:]]}

    def can_lose_calls(self, messages: Sequence[Message]) -> bool:
        """False if results name their calls by id in another order: then the order does not tell which is whose."""
        called = {key: body.get("id") for message in messages for key, body in _bodies(message, _CALL)}
        answered = ((key, body.get("id")) for message in messages for key, body in _bodies(message, _RESULT))
        return super().can_lose_calls(messages) and all(
            key in called and (not identity or called[key] in (None, identity)) for key, identity in answered
        )


def calls_in(message: Message) -> list[Block]:
    """Return the function calls in a content."""
    return [body for _, body in _bodies(message, _CALL)]


def responses_in(message: Message) -> list[Block]:
    """Return the function responses in a content."""
    return [body for _, body in _bodies(message, _RESULT)]


def _bodies(message: Message, field: Field) -> list[tuple[str, Block]]:
    """Return the calls or the results in a content, each with the key by which they pair."""
    blocks = _loose_blocks(message)
    return [(key, _body(blocks[number], field)) for number, key in _pair_keys(blocks, field).items()]


def _blocks(message: Message, position: int) -> Sequence[Block]:
    parts = message.get("parts")
    if parts is None:
        return ()
    if not isinstance(parts, list | tuple):
        raise MessageError(f"'parts' must be a list, got {kind_of(parts)}", position)
    for number, part in enumerate(parts):
        if not isinstance(part, Mapping):
            raise MessageError(f"part {number} must be a dict, got {kind_of(part)}", position)
    return parts


def _loose_blocks(message: Message) -> list[Block]:
    """Return the parts unchecked, with empty ones in place of what is not an object."""
    parts = message.get("parts")
    return [part if isinstance(part, Mapping) else {} for part in (parts if isinstance(parts, list | tuple) else ())]


def _key(block: Block, field: Field) -> str | None:
    """Return the spelling in which a part has this field; None if it has none. Dumps of SDK objects set all to null."""
    return next((spelling for spelling in field if block.get(spelling) is not None), None)


def _body(block: Block, field: Field) -> Block:
    value = block.get(_key(block, field) or "")
    return value if isinstance(value, Mapping) else {}


def _pair_keys(blocks: Sequence[Block], field: Field) -> dict[int, str]:
    """Return the key that pairs each call with its result: its name, from the second of that name on with a number."""
    seen: Counter[str] = Counter()
    found = {}
    for number, block in enumerate(blocks):
        if _key(block, field):
            name = text_of(_body(block, field).get("name"))
            seen[name] += 1
            found[number] = name if seen[name] == 1 else f"{name}#{seen[name]}"
    return found


def _shown(block: Block) -> str:
    """Return the text of a function response: the only string in it, or all of it as JSON."""
    response = _body(block, _RESULT).get("response")
    if isinstance(response, Mapping) and len(response) == 1 and "error" not in response:
        (value,) = response.values()
        if isinstance(value, str):
            return value
    return as_json(response) if response else ""


def _media_in(block: Block) -> int:
    """Return the number of images and files beside the text of a function response."""
    parts = _body(block, _RESULT).get("parts")
    return sum(map(_is_media, parts)) if isinstance(parts, list | tuple) else 0


def _own_texts(block: Block, number: int, call: str) -> Iterator[Text]:
    """Yield the texts of a model's part that may be shown in part. Signed parts and thoughts stay as they are."""
    if _key(block, _SIGNATURE) or block.get("thought"):
        return
    if call:
        args = _body(block, _CALL).get("args")
        yield from (Text(Role.ARGUMENT, text, call, number) for text in long_strings(args))
    elif isinstance(block.get("text"), str):
        yield Text(Role.SPEECH, block["text"], block=number)


def _with_block(block: Block, new: Sequence[str | None]) -> Block:
    if key := _key(block, _CALL):
        return {**block, key: {**block[key], "args": with_strings(block[key].get("args"), iter(new))}}
    if key := _key(block, _RESULT):
        old = block[key].get("response")
        name = next(iter(old)) if isinstance(old, Mapping) and len(old) == 1 else "result"
        name = "error" if isinstance(old, Mapping) and "error" in old else name
        return {**block, key: {k: v for k, v in block[key].items() if k != "parts"} | {"response": {name: new[0]}}}
    return {**block, "text": new[0]}


def _turn(blocks: Sequence[Block], position: int) -> Part:
    thoughts: list[str] = []
    actions: list[str] = []
    made: list[str] = []
    extra = 0
    for block in blocks:
        signature = _key(block, _SIGNATURE)
        extra += len(block[signature]) // 4 if signature and isinstance(block[signature], str | bytes) else 0
        if _key(block, _CALL):
            call = _body(block, _CALL)
            if not text_of(call.get("name")):
                raise MessageError("a 'functionCall' must have a 'name'", position)
            made.append(f"{call['name']}({as_json(call.get('args') or {})})")
            actions.append(made[-1])
        elif block.get("text") is not None:
            thoughts.append(text_of(block["text"]))
        elif _is_media(block):
            extra += MEDIA_TOKENS
        else:  # mostly tools that the provider runs itself
            actions.append(_as_text(block))
    thought, action = thought_and_action(thoughts, actions)
    return Part(
        Kind.TURN,
        thought=thought,
        action=action,
        calls=tuple(_pair_keys(blocks, _CALL).values()),
        made=tuple(made),
        counted=tuple(text for text in (*thoughts, *actions) if text),
        extra_tokens=extra,
        reasons=any(_key(block, _SIGNATURE) for block in blocks),
    )


def _result(blocks: Sequence[Block], position: int) -> Part:
    keys = _pair_keys(blocks, _RESULT)
    if not all(text_of(_body(blocks[number], _RESULT).get("name")) for number in keys):
        raise MessageError("a 'functionResponse' must have a 'name'", position)
    texts = [text for number in keys if (text := _shown(blocks[number]))]
    media = sum(_media_in(blocks[number]) for number in keys)
    answers = tuple(keys.values())
    return Part(Kind.RESULT, join(texts), answers=answers, counted=tuple(texts), extra_tokens=media * MEDIA_TOKENS)


def _spoken(kind: Kind, blocks: Sequence[Block], numbers: tuple[int, ...] | None) -> Part:
    texts, media = _texts_and_media(blocks)
    return Part(kind, join(texts), counted=tuple(texts), extra_tokens=media * MEDIA_TOKENS, blocks=numbers)


def _texts_and_media(blocks: Sequence[Block]) -> tuple[list[str], int]:
    media = sum(map(_is_media, blocks))
    texts = [_as_text(block) for block in blocks if not _is_media(block)]
    return [text for text in texts if text], media


def _is_media(block: object) -> bool:
    return isinstance(block, Mapping) and _key(block, _MEDIA) is not None


def _as_text(block: Block) -> str:
    """Return the text of a part; as JSON if it is of another kind, such as code that the provider ran."""
    if block.get("text") is not None:
        return text_of(block["text"])
    rest = {key: value for key, value in block.items() if value is not None and key != _key(block, _SIGNATURE)}
    return as_json(rest) if rest else ""
