"""Models behind Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from focusctx.drafts.http import Endpoint, count
from focusctx.types import Message

from ..protocols import Turn
from .anthropic_messages import message, request
from .served import Server, priced_turn

_MOST_OUTPUT = 8192


class AnthropicModel:
    """Takes no seed: the API has none. Thinking is off where the model allows that, as temperature 0 wants it."""

    def __init__(self, model: str, name: str, endpoint: Endpoint, *, temperature: float) -> None:
        self.name = name
        self.server = Server(endpoint, ("temperature", "thinking"))
        self._fixed = {
            "model": model,
            "max_tokens": _MOST_OUTPUT,
            "temperature": temperature,
            "thinking": {"type": "disabled"},
        }

    async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Turn:
        answer = await self.server.ask({**self._fixed, **request(messages, tools)})
        usage = answer.get("usage") or {}
        cached = count(usage.get("cache_read_input_tokens"))
        written = count(usage.get("cache_creation_input_tokens"))
        return priced_turn(
            self.name,
            self._message(answer),
            count(usage.get("input_tokens")) + cached + written,  # the API counts them apart
            count(usage.get("output_tokens")),
            cached=cached,
            written=written,
        )

    def _message(self, answer: Mapping[str, Any]) -> Message:
        try:
            return message(answer["content"])
        except (LookupError, TypeError) as error:
            raise self.server.malformed("no content", answer) from error
