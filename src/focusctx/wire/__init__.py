"""The wire formats, and how to tell which of them a message list is in.

A format claims a message if no other format can have produced it. All these tests are here and not with the formats:
each has to know what the others look like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import ConfigError
from ..types import Message
from .ai_sdk import AiSdk
from .anthropic import THINKING, AnthropicMessages
from .chat_completions import ChatCompletions
from .gemini import ROLES as GEMINI_ROLES
from .gemini import Gemini
from .ollama import Ollama
from .part import Kind, Part, Role, Text, Wire, blanked, has_object, loose_calls, typed_blocks
from .responses import Responses, is_reference

WIRES: dict[str, Wire] = {
    wire.name: wire for wire in (ChatCompletions(), Responses(), AnthropicMessages(), AiSdk(), Gemini(), Ollama())
}
_DEFAULT = "chat_completions"
"""Format of lists that read the same in every format: plain text from system, user and assistant."""
_ANTHROPIC_BLOCKS = THINKING | {
    *("tool_use", "tool_result", "server_tool_use", "mcp_tool_use", "document", "search_result"),
}
_ANTHROPIC_DUMPS = frozenset({"stop_reason", "stop_sequence"})
"""Fields of an answer that was put into the history as dumped by the SDK, with `"type": "message"`."""
_RESPONSES_BLOCKS = frozenset({"input_text", "output_text", "input_image", "input_file"})
_AI_SDK_RESULTS = frozenset({"tool-result", "tool-approval-response"})
_AI_SDK_PARTS = _AI_SDK_RESULTS | {"tool-call", "tool-approval-request", "reasoning-file"}


def wire_named(name: str) -> Wire:
    try:
        return WIRES[name]
    except KeyError:
        raise ConfigError(f"unknown format {name!r}; known: {', '.join(WIRES)}") from None


def recognise(messages: Iterable[Message]) -> Wire:
    """Return the format of the first message that only one format can have."""
    return shown_by(messages)[0] or WIRES[_DEFAULT]


def shown_by(messages: Iterable[Message]) -> tuple[Wire | None, bool]:
    """Return the format that the messages show, and True if it is certain: `"type": "message"` belongs to Responses,
    but dumps of Anthropic's answers have it too."""
    likely = None
    for message in messages:
        if wire := claimed(message):
            return wire, True
        if message.get("type") == "message":
            likely = WIRES["responses"]
    return likely, False


def results_by_call(messages: Iterable[Message], format: str) -> dict[str, str]:
    """Return the tool results in a step's messages, by the ids of their calls."""
    if format == "spans":
        return {}
    texts = (text for message in messages for text in wire_named(format).texts(message))
    return {text.call: text.text for text in texts if text.role is Role.RESULT and text.call}


def claimed(message: Message) -> Wire | None:
    """Return the only format that can have produced this message, or None."""
    return next((WIRES[name] for name, claims in _CLAIMS.items() if claims(message)), None)


def claimants(messages: Iterable[Message]) -> set[str]:
    """Return the names of all formats that claim some message. More than one means a mixed list."""
    messages = list(messages)
    return {name for name, claims in _CLAIMS.items() if any(map(claims, messages))}


def _is_chat(message: Message) -> bool:
    """True for a message of Chat Completions.

    Gateways that send arguments as objects to this API are not told apart from Ollama: the caller then names the
    format.
    """
    named = isinstance(message.get("tool_name"), str) or isinstance(message.get("images"), list | tuple)
    if "parts" in message or named or any(map(has_object, loose_calls(message))):
        return False
    blocks = list(typed_blocks(message))
    if message.get("role") == "tool" and any(kind in _AI_SDK_RESULTS for kind, _ in blocks):
        return False
    if message.get("role") in ("tool", "function") or "tool_calls" in message or "function_call" in message:
        return True
    return any(kind == "image_url" or (kind == "file" and "file" in block) for kind, block in blocks)


def _is_responses(item: Message) -> bool:
    if "role" not in item and is_reference(item):
        return True
    if isinstance(kind := item.get("type"), str) and kind != "message":
        return True  # Anthropic's dumps have type "message" too
    return any(kind in _RESPONSES_BLOCKS for kind, _ in typed_blocks(item))


def _is_anthropic(message: Message) -> bool:
    return not _ANTHROPIC_DUMPS.isdisjoint(message) or any(
        kind in _ANTHROPIC_BLOCKS or (kind == "image" and "source" in block) for kind, block in typed_blocks(message)
    )


def _is_ai_sdk(message: Message) -> bool:
    return "providerOptions" in message or any(_is_ai_sdk_part(kind, part) for kind, part in typed_blocks(message))


def _is_ai_sdk_part(kind: str, part: Mapping[str, Any]) -> bool:
    """True if only the AI SDK has such a part; other formats have files, images and reasoning of other shapes."""
    return (
        kind in _AI_SDK_PARTS
        or "providerOptions" in part
        or (kind == "file" and "mediaType" in part)
        or (kind == "image" and "image" in part)
        or (kind == "reasoning" and isinstance(part.get("text"), str))
    )


def _is_gemini(content: Message) -> bool:
    parts = content.get("parts")
    return (
        isinstance(parts, list | tuple)
        and "content" not in content
        and content.get("role") in GEMINI_ROLES
        and all(isinstance(part, Mapping) and "type" not in part for part in parts)
    )


def _is_ollama(message: Message) -> bool:
    if isinstance(message.get("content"), list | tuple) or "parts" in message or "type" in message:
        return False
    if any("id" not in call and has_object(call) for call in loose_calls(message)):
        return True
    answers = message.get("role") == "tool" and "tool_name" in message
    return answers or isinstance(message.get("thinking"), str) or isinstance(message.get("images"), list | tuple)


_CLAIMS: dict[str, Callable[[Message], bool]] = {
    "chat_completions": _is_chat,
    "responses": _is_responses,
    "anthropic": _is_anthropic,
    "ai_sdk": _is_ai_sdk,
    "gemini": _is_gemini,
    "ollama": _is_ollama,
}


__all__ = [
    "WIRES",
    "Kind",
    "Part",
    "Role",
    "Text",
    "Wire",
    "blanked",
    "claimants",
    "claimed",
    "recognise",
    "results_by_call",
    "shown_by",
    "wire_named",
]
