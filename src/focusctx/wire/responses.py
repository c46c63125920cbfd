"""OpenAI Responses input items: flat, paired by `call_id`, with reasoning bound to the item after it.

Items that the provider stores may be sent by id alone. Agents that leave storage on (by default the AI SDK's OpenAI
provider) send such references, `{"type": "item_reference", "id": "rs_…"}`, for items the model made earlier. Their
content is not visible; the prefix of the id tells the kind of item.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import count

from ..errors import MessageError
from ..types import Message
from .part import (
    LONG_ARGUMENT,
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
    parsed_arguments,
    result_text,
    role_of,
    text_of,
    texts_of,
    thought_and_action,
    with_strings,
)

_PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAA"
    "AABJRU5ErkJggg=="
)
"""One transparent pixel: a computer call's output must be a screenshot, so its placeholder is the smallest one."""


_MADE_BY_PROVIDER = ("mcp_approval_request", "mcp_list_tools", "program")
_OTHER_ITEMS = frozenset(
    {*_MADE_BY_PROVIDER, "mcp_approval_response", "reasoning", "compaction", "compaction_trigger", "additional_tools"}
)
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
_BODIES = ("arguments", "input", "action", "actions", "operation", "queries", "query", "code")
"""Fields in which the different kinds of calls keep their arguments."""


class Stored(Enum):
    """The kind of item behind a reference."""

    REASONING = "reasoning"
    MESSAGE = "message"
    HOSTED = "hosted call"
    """A call that the provider ran, and whose result it stores."""
    APPROVAL = "approval request"
    """A request that is answered under its own id."""
    CALL = "call"
    """A call answered by an output whose `call_id` the reference does not show."""
    COMPACTION = "compaction"
    UNKNOWN = "unknown"
    """A call, an output or something new: no assumption is made that could separate it from its step."""


_PREFIXES = {
    "rs": Stored.REASONING,
    "msg": Stored.MESSAGE,
    "ws": Stored.HOSTED,
    "fs": Stored.HOSTED,
    "ci": Stored.HOSTED,
    "ig": Stored.HOSTED,
    "mcp": Stored.HOSTED,
    "mcpl": Stored.HOSTED,
    "mcpr": Stored.APPROVAL,
    "fc": Stored.CALL,
    "ctc": Stored.CALL,
    "cmp": Stored.COMPACTION,
}


def is_reference(item: Message) -> bool:
    """True for a reference, with its type or, as the API allows, with its id alone."""
    if item.get("type") is None:
        return isinstance(item.get("id"), str) and item.keys() <= {"id", "type"}
    return bool(item["type"] == "item_reference")


def stored_kind(reference: Message) -> Stored:
    """Return the kind of item that a reference points to, as far as its id tells."""
    prefix, separator, _ = str(reference.get("id")).partition("_")
    return _PREFIXES.get(prefix, Stored.UNKNOWN) if separator else Stored.UNKNOWN


def item_kind(item: Message) -> str:
    """Return the type of an item; messages and references may omit it."""
    return str(item.get("type") or ("message" if "role" in item else "item_reference"))


def is_output(item: Message) -> bool:
    """True for an item with which the agent answers a call."""
    kind = item_kind(item)
    return kind.endswith("_output") or kind == "mcp_approval_response"


def made_by_model(item: Message) -> bool:
    """True for an item that the model or the provider made."""
    return item.get("role") == "assistant" if item_kind(item) == "message" else not is_output(item)


class Responses(Wire):
    name = "responses"
    title = "OpenAI Responses"
    turns_run_on = True

    def knows(self, message: Message) -> bool:
        kind = message.get("type")
        if is_reference(message):
            return True
        if kind is None or kind == "message":
            return has_content(message, ("system", "developer", "user", "assistant"))
        return isinstance(kind, str) and (kind.endswith(("_call", "_output")) or kind in _OTHER_ITEMS)

    def read(self, message: Message, position: int) -> tuple[Part, ...]:
        given = message.get("type")
        if is_reference(message):
            return (_reference(message),)
        untyped = given is None and "role" in message
        if not (untyped or isinstance(given, str)):
            raise MessageError(f"an item needs a 'type' or a 'role', got type {kind_of(given)}", position)
        kind = "message" if untyped else str(given)
        if kind == "message":
            return (_message(message, position),)
        if kind == "reasoning":
            return (_reasoning(message),)
        if is_output(message):
            return (_output(message, kind, position),)
        if kind.endswith("_call") or kind in _MADE_BY_PROVIDER:
            return (_call(message, kind, position),)
        # Compaction items and unknown item types stay where they are.
        return (Part(Kind.FRAME, extra_tokens=len(text_of(message.get("encrypted_content"))) // 4),)

    def texts(self, message: Message) -> tuple[Text, ...]:
        kind = message.get("type") or "message"
        call = text_of(message.get("call_id"))
        if kind == "computer_call_output":
            return (Text(Role.RESULT, "", call, media=1),)
        if _program(message) is not None:
            return ()  # the provider may run the program again over this output
        if kind in _OUTPUTS:
            return (result_text(message.get("output"), call),)
        if kind == "message" and message.get("role") == "user":
            return (result_text(message.get("content")),)
        if kind == "message" and message.get("role") == "assistant":
            return _speech(message.get("content"))
        if kind == "custom_tool_call" and len(text_of(message.get("input"))) > LONG_ARGUMENT:
            return (Text(Role.ARGUMENT, message["input"], call),)
        arguments = parsed_arguments(message.get("arguments")) if kind == "function_call" else None
        return tuple(Text(Role.ARGUMENT, text, call) for text in long_strings(arguments))

    def with_texts(self, message: Message, texts: Mapping[int, str]) -> Message:
        kind = message.get("type") or "message"
        if not texts:
            return message
        if kind == "computer_call_output":
            return {**message, "output": {"type": "computer_screenshot", "image_url": _PIXEL}}
        if kind in _OUTPUTS:
            return {**message, "output": texts[0]}
        if kind == "custom_tool_call":
            return {**message, "input": texts[0]}
        if kind == "function_call":
            arguments = parsed_arguments(message.get("arguments"))
            return {**message, "arguments": as_json(with_strings(arguments, map(texts.get, count())))}
        content = message.get("content")
        if message.get("role") == "user" or isinstance(content, str):
            return {**message, "content": texts[0]}
        blocks = list(content or ())
        for place, text in enumerate(_speech(content)):
            if place in texts and text.block is not None:
                blocks[text.block] = {**blocks[text.block], "text": texts[place]}
        return {**message, "content": blocks}

    def without_calls(self, message: Message, calls: Collection[str], mark: str) -> Message | None:
        return None

    def can_lose_calls(self, messages: Sequence[Message]) -> bool:
        return False  # every call is an item of its own, often bound to the reasoning before it


def _speech(content: object) -> tuple[Text, ...]:
    """Return the model's words; blocks with citations stay as they are, since these name places in the text."""
    if isinstance(content, str):
        return (Text(Role.SPEECH, content),)
    blocks = content if isinstance(content, list | tuple) else ()
    return tuple(
        Text(Role.SPEECH, text_of(block["text"]), block=number)
        for number, block in enumerate(blocks)
        if isinstance(block, Mapping) and "text" in block and not block.get("annotations")
    )


def _program(item: Message) -> str | None:
    """Return the id of the program that made a call; None if the model made it itself."""
    caller = item.get("caller")
    return text_of(caller.get("caller_id")) if isinstance(caller, Mapping) and caller.get("type") == "program" else None


def _reference(item: Message) -> Part:
    """Return a part of the model's turn with hidden content. It `leads`: the item it belongs to comes next."""
    kind = stored_kind(item)
    if kind is Stored.COMPACTION or not isinstance(item.get("id"), str):
        return Part(Kind.FRAME)
    return Part(
        Kind.TURN,
        calls=(item["id"],) if kind is Stored.APPROVAL else (),
        reasons=kind is Stored.REASONING,
        leads=True,
        stored=True,
        unseen_calls=int(kind in (Stored.CALL, Stored.UNKNOWN)),
    )


def _message(message: Message, position: int) -> Part:
    role = role_of(message, position)
    texts, media = texts_of(blocks_of(message, position))
    counted, extra = tuple(texts), media * MEDIA_TOKENS
    if role == "assistant":
        thought, action = thought_and_action(texts, ())
        return Part(Kind.TURN, thought=thought, action=action, counted=counted, extra_tokens=extra)
    kind = Kind.WORDS if role == "user" else Kind.FRAME
    static = role in ("system", "developer")
    return Part(kind, text=join(texts), counted=counted, extra_tokens=extra, static=static)


def _reasoning(item: Message) -> Part:
    texts = [
        text_of(block.get("text"))
        for field in ("summary", "content")
        if isinstance(blocks := item.get(field), list | tuple)
        for block in blocks
        if isinstance(block, Mapping)
    ]
    # The encrypted text is billed as the reasoning it hides: about one token per four characters.
    hidden = len(text_of(item.get("encrypted_content"))) // 4
    thought = join(texts)
    return Part(
        Kind.TURN,
        thought=thought,
        counted=(thought,) if thought else (),
        extra_tokens=hidden,
        reasons=True,
        leads=True,
    )


def _call(item: Message, kind: str, position: int) -> Part:
    field = "id" if kind == "mcp_approval_request" else "call_id"
    identity = item.get(field)
    # Calls of hosted tools have no call id: they contain their result.
    waits = identity is not None or kind in ("function_call", "custom_tool_call", "mcp_approval_request", "program")
    if waits and not isinstance(identity, str):
        raise MessageError(f"a '{kind}' item must have a '{field}'", position)
    body = next((item[key] for key in _BODIES if item.get(key)), "")
    action = f"{text_of(item.get('name')) or kind}({body if isinstance(body, str) else as_json(body)})"
    pieces, extra = [action], 0
    if kind == "image_generation_call":
        extra = MEDIA_TOKENS
    elif inside := next((item[key] for key in ("results", "outputs", "output") if item.get(key)), None):
        pieces.append(inside if isinstance(inside, str) else as_json(inside))
    ids = (str(identity),) if waits else ()
    return Part(
        Kind.TURN,
        action=join(pieces),
        calls=ids if kind != "program" else (),
        made=(action,) if ids and kind != "program" else (),
        holds=ids if kind == "program" else (),
        counted=tuple(pieces),
        extra_tokens=extra,
        program=_program(item),
    )


def _output(item: Message, kind: str, position: int) -> Part:
    field = {"mcp_approval_response": "approval_request_id", "local_shell_call_output": "id"}.get(kind, "call_id")
    identity = item.get("call_id", item.get(field))
    if not (isinstance(identity, str) or (identity is None and field == "call_id")):
        raise MessageError(f"a '{kind}' item must have a '{field}', got {kind_of(identity)}", position)
    texts, extra = _printed(item, kind)
    answers = (identity,) if isinstance(identity, str) else ()
    part = Part(Kind.RESULT, text=join(texts), answers=answers, counted=tuple(texts), extra_tokens=extra)
    if kind == "program_output" or (kind == "tool_search_output" and not answers):
        return replace(part, kind=Kind.TURN, action=part.text, text="")  # the provider ran it
    if not answers:
        return replace(part, kind=Kind.FRAME)  # it does not say which call it answers, so it stays
    return replace(part, goes_on=kind == "mcp_approval_response")


def _printed(item: Message, kind: str) -> tuple[list[str], int]:
    """Return the texts of a tool's output, and the estimated tokens of its other content."""
    output = next((item[key] for key in ("output", "result", "tools", "approve") if key in item), "")
    if kind == "computer_call_output":
        return [], MEDIA_TOKENS
    if isinstance(output, str):
        return ([output] if output else []), 0
    if isinstance(output, list | tuple) and all(isinstance(block, Mapping) and "type" in block for block in output):
        texts, media = texts_of(output)
        return texts, media * MEDIA_TOKENS
    return [as_json(output)], 0
