"""The recall tool in requests: offer it, and build the request of a later round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...session.recall import TOOL, recall_tool
from ...types import Message
from ...wire.foreign import HELD_BY
from ..request import Fields, decode, encode, read_list, write_list
from .anthropic import AnthropicTurn
from .chat_completions import ChatCompletionsTurn
from .responses import ResponsesTurn
from .turn import Turn

_TURNS: dict[str, Callable[[], Turn[Any]]] = {
    "chat_completions": ChatCompletionsTurn,
    "responses": ResponsesTurn,
    "anthropic": AnthropicTurn,
}
RECALLED = frozenset(_TURNS)
"""Formats in which the proxy offers the tool."""
_ELSEWHERE = (*HELD_BY, "background")
"""Fields with which the provider keeps the rounds, or the agent may ask for one of them by its id."""


def turn_for(format: str) -> Turn[Any]:
    """Return a `Turn` for the answer to a request that offers the tool."""
    return _TURNS[format]()


def offer(fields: Fields, format: str) -> Fields | None:
    """Return the fields to change; None if the tool is not offered, and the answer is then forwarded unchanged.

    It is offered to agents that use tools, have none of this name, leave the choice to the model and want one answer.
    """
    tools = read_list(fields.get("tools", b""))
    if not tools or any(_name(tool) == TOOL for tool in tools):
        return None
    if decode(fields.get("n")) not in (None, 1) or any(decode(fields.get(name)) for name in _ELSEWHERE):
        return None
    choice = decode(fields.get("tool_choice"))
    if isinstance(choice, dict):
        choice = choice.get("type") if format == "anthropic" else "one of them"
    if choice not in (None, "auto", "any", "required"):
        return None
    return {"tools": write_list([*tools, encode(recall_tool(format))])}


def next_round(fields: Fields, format: str, extra: Sequence[Message], *, offer_tool: bool) -> Fields:
    """Return the request with the messages of the rounds so far, and without the tool unless `offer_tool` is set."""
    history = "input" if format == "responses" else "messages"
    messages = [*(read_list(fields[history]) or ()), *map(encode, extra)]
    fields = {**fields, history: write_list(messages)}
    if not offer_tool:
        tools = read_list(fields["tools"]) or ()
        fields["tools"] = write_list([tool for tool in tools if _name(tool) != TOOL])
    return fields


def _name(tool: bytes) -> object:
    definition = decode(tool)
    if not isinstance(definition, dict):
        return None
    function = definition.get("function")
    return function.get("name") if isinstance(function, dict) else definition.get("name")
