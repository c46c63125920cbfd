"""Recognise histories that cannot be compressed: those in other formats, and those that the provider stores.

For other formats, advice says how to convert the messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..types import Message
from . import WIRES

*_FIRST, _LAST = (wire.title for wire in WIRES.values())
UNDERSTOOD = f"{', '.join(_FIRST)} and {_LAST}"

_LANGCHAIN_TYPES = frozenset({"human", "ai", "system", "tool", "function", "chat", "constructor", "remove"})
_ROLES = {"human": "user", "ai": "assistant", "bot": "assistant", "model": "assistant", "gpt": "assistant"}

HELD_BY = ("previous_response_id", "conversation", "thread")
"""Fields of a request whose history the provider stores, so that it carries new messages only: two of OpenAI's, and
Anthropic's message threads. A request that creates a thread has its whole history, but later ones continue from what
the provider received, so that must be what the agent sent."""


def is_held(request: Mapping[str, Any]) -> bool:
    """True if the provider stores the history that a request continues, or is asked to store it from now on."""
    return any(request.get(field) for field in HELD_BY)


def advice_for(message: Message) -> str | None:
    """Name the foreign format that a message looks like and what to do about it; None if it looks like none."""
    return next((advice for looks, advice in _FORMATS if looks(message)), None)


def not_understood(messages: Iterable[Message]) -> str:
    """Return the error text for a list in which no message is understood."""
    messages = [message for message in messages if isinstance(message, Mapping)] or [{}]
    found = next((advice for message in messages if (advice := advice_for(message))), None)
    first = messages[0]
    fields = f"the fields {', '.join(map(str, first))}" if first else "no fields"
    shape = f"role {first['role']!r}" if "role" in first else fields
    looks = found or f"the first has {shape}; convert them, or record the request that your agent sends"
    none = f"none of the {len(messages)} messages is" if len(messages) > 1 else "the only message is not"
    return f"{none} understood: {looks} (understood: {UNDERSTOOD})"


def _is_ui_message(message: Message) -> bool:
    return any("type" in part for part in _objects(message.get("parts")))


def _is_bedrock(message: Message) -> bool:
    return any("type" not in block for block in _objects(message.get("content")))


def _is_langchain(message: Message) -> bool:
    kind = message.get("type")
    dumped = kind in _LANGCHAIN_TYPES and "role" not in message if isinstance(kind, str) else False
    return "lc" in message or dumped or (isinstance(kind, str) and kind.endswith(("Message", "MessageChunk")))


def _is_share_gpt(message: Message) -> bool:
    return "from" in message and "value" in message


def _has_other_roles(message: Message) -> bool:
    return isinstance(role := message.get("role"), str) and role in _ROLES


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


_FORMATS = (
    (
        _is_ui_message,
        "they look like UI messages of the AI SDK; convert them with its `convertToModelMessages`",
    ),
    (
        _is_langchain,
        "they look like LangChain messages; convert them with langchain_core.messages.convert_to_openai_messages, "
        "or use focusctx.integrations.langchain",
    ),
    (
        _is_bedrock,
        "they look like Bedrock Converse messages; send Anthropic or Chat Completions messages, or use "
        "focusctx.integrations.strands",
    ),
    (_is_share_gpt, "they look like ShareGPT turns ('from', 'value'); turn them into 'role' and 'content'"),
    (
        _has_other_roles,
        "their roles are not OpenAI's or Anthropic's; rename human to user, ai, bot or model to assistant",
    ),
)
"""A test and the advice for each format. The first that fits is used."""
