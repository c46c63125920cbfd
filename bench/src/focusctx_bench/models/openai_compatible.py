"""Models behind `/chat/completions`: OpenAI, Azure, vLLM, Ollama, most aggregators."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from focusctx.drafts.http import Endpoint, count, text_of
from focusctx.types import Message

from ..protocols import Turn
from .served import Server, priced_turn

_KEPT = ("reasoning_content", "reasoning_details", "refusal")
"""Beside words and calls: what servers of reasoning models want to see again."""


class OpenAICompatibleModel:
    def __init__(self, model: str, name: str, endpoint: Endpoint, *, temperature: float, seed: int) -> None:
        self.name = name
        self.server = Server(endpoint, ("temperature", "seed"))
        self._fixed = {"model": model, "temperature": temperature, "seed": seed}

    async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Turn:
        answer = await self.server.ask({**self._fixed, "messages": list(messages), **_tools(tools)})
        usage = _mapping(answer.get("usage"))
        return priced_turn(
            self.name,
            self._message(answer),
            count(usage.get("prompt_tokens")),
            count(usage.get("completion_tokens")),
            cached=count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        )

    def _message(self, answer: Mapping[str, Any]) -> Message:
        try:
            said = answer["choices"][0]["message"]
            calls = [_call(call, place) for place, call in enumerate(said.get("tool_calls") or ())]
        except (LookupError, TypeError, AttributeError) as error:
            raise self.server.malformed("no message", answer) from error
        message: dict[str, Any] = {"role": "assistant", "content": text_of(said.get("content")) or None}
        message |= {name: said[name] for name in _KEPT if said.get(name)}
        if calls:
            return {**message, "tool_calls": calls}
        return {**message, "content": message["content"] or ""}


def _tools(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"tools": list(tools)} if tools else {}


def _call(call: Mapping[str, Any], place: int) -> dict[str, Any]:
    """A call as OpenAI writes it: some servers leave out the id, or send the arguments as an object."""
    arguments = call["function"].get("arguments") or "{}"
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {
        "id": call.get("id") or f"call_{place}",
        "type": "function",
        "function": {"name": str(call["function"]["name"]), "arguments": arguments},
    }


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
