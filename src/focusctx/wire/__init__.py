"""The wire formats, and how the format of a message list is recognised."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import ConfigError
from ..types import Message
from .ai_sdk import AiSdk
from .anthropic import AnthropicMessages
from .chat_completions import ChatCompletions
from .gemini import Gemini
from .ollama import Ollama
from .part import Kind, Part, Role, Text, Wire, blanked
from .responses import Responses

WIRES: dict[str, Wire] = {
    wire.name: wire for wire in (ChatCompletions(), Responses(), AnthropicMessages(), AiSdk(), Gemini(), Ollama())
}
_DEFAULT = "chat_completions"
"""Format of lists that read the same in every format: plain text from system, user and assistant."""


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
    return next((wire for wire in WIRES.values() if wire.claims(message)), None)


def claimants(messages: Iterable[Message]) -> set[str]:
    """Return the names of all formats that claim some message. More than one means a mixed list."""
    messages = list(messages)
    return {name for name, wire in WIRES.items() if any(map(wire.claims, messages))}


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
