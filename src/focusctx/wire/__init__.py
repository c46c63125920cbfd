"""The wire formats, and how a message list is recognised as one of them."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import ConfigError
from ..types import Message
from .anthropic import AnthropicMessages
from .chat_completions import ChatCompletions
from .part import Kind, Part, Wire
from .responses import Responses

WIRES: dict[str, Wire] = {wire.name: wire for wire in (ChatCompletions(), Responses(), AnthropicMessages())}
_DEFAULT = "chat_completions"
"""For lists that read the same in every format: plain text from system, user and assistant."""


def wire_named(name: str) -> Wire:
    try:
        return WIRES[name]
    except KeyError:
        raise ConfigError(f"unknown format {name!r}; known: {', '.join(WIRES)}") from None


def recognise(messages: Iterable[Message]) -> Wire:
    """The format of the first message that only one format can have."""
    return next((wire for message in messages if (wire := claimed(message))), WIRES[_DEFAULT])


def claimed(message: Message) -> Wire | None:
    """The format that alone can have produced this message, if there is one."""
    return next((wire for wire in WIRES.values() if wire.claims(message)), None)


__all__ = ["WIRES", "Kind", "Part", "Wire", "claimed", "recognise", "wire_named"]
