"""Draft models behind `/chat/completions`: OpenAI, Azure, vLLM, llama.cpp, Ollama, most aggregators."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..types import Prompt, Reply, Usage
from .http import (
    RETRIES,
    BadRequest,
    Endpoint,
    RejectedParameters,
    as_they_come,
    base_url,
    count,
    open_session,
    text_of,
)

if TYPE_CHECKING:
    import aiohttp

_OPENAI = "https://api.openai.com/v1"
_REASONING = re.compile(r"(?:.*/)?(?:gpt-[5-9]|o\d)(?![a-z])")
"""Names of OpenAI's reasoning models."""
_THINKS_UNLESS_TOLD = re.compile(r"(?:.*/)?qwen-?3(?![0-9])", re.IGNORECASE)
"""Names of open-weight models that think before they answer unless the request switches that off."""
_THINKING = 3072
"""Tokens that such a model may spend on thinking. They count as output: without room for them it writes nothing."""


class OpenAICompatibleDraft:
    """A model behind `/chat/completions`. Requests all N sketches at once (`n`), so that the input is paid for once.

    If the server does not support that (it refuses `n`, or sends fewer choices), the rest are requested in parallel,
    and all of them from then on. Parameters that the model does not accept are left out after its first refusal. No
    tools are ever sent: a draft that could call the agent's tools would.

    OpenAI's reasoning models are asked for little effort and get room to think; Qwen3 is told not to think, and gets
    that room too, as some servers ignore it. For others, pass
    `extra_body={"reasoning_effort": "low", "max_completion_tokens": 4096}`.

    Args:
        model: Name of the model.
        base_url: Falls back to OPENAI_BASE_URL, then to OpenAI.
        api_key: Falls back to OPENAI_API_KEY; "" sends none.
        headers: Sent with each request.
        timeout: Limits one request, in seconds; by default only the event's `deadline` does.
        retries: How often a request is repeated when the server is busy or cannot be reached.
        extra_body: Fields that are sent unchanged and replace ours.
        sends_n: False if the server is known to ignore `n`.
        name: Name for logs, reports and the price table.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        retries: int = RETRIES,
        extra_body: Mapping[str, Any] | None = None,
        sends_n: bool = True,
        name: str | None = None,
    ) -> None:
        base = _base(base_url)
        self.model = model
        self._name = name or (f"openai:{model}" if base == _OPENAI else f"openai:{model}@{base}")
        self.endpoint = Endpoint(f"{base}/chat/completions", _headers(base, api_key, headers), timeout, retries)
        """URL, headers, timeout and retries of its requests; may be replaced by another."""
        self._extra = dict(extra_body or {})
        self._reasons = _REASONING.match(model) is not None
        self._no_thinking = _no_thinking(base) if _THINKS_UNLESS_TOLD.match(model) else {}
        ours = {"n", "temperature", "seed", "max_tokens", "max_completion_tokens", "reasoning_effort"}
        self._rejected = RejectedParameters((ours | self._no_thinking.keys()) - self._extra.keys())
        if self._reasons:
            self._rejected.add("max_tokens")
        if not sends_n:
            self._rejected.add("n")

    @property
    def name(self) -> str:
        return self._name

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        async with open_session() as session:
            have = 0
            if n > 1 and "n" not in self._rejected:
                for reply in await self._ask(session, prompt, n):
                    have += 1
                    yield reply
                if have < n:
                    self._rejected.add("n")
            calls = (self._ask(session, replace(prompt, seed=prompt.seed + k), 1) for k in range(have, n))
            async with aclosing(as_they_come(calls)) as answers:
                async for (reply,) in answers:
                    yield reply

    async def _ask(self, session: aiohttp.ClientSession, prompt: Prompt, n: int) -> list[Reply]:
        """Return up to `n` replies of one request; none if the server refuses `n` itself."""
        while True:
            body = self._body(prompt, n)
            try:
                answer = await self.endpoint.post(session, body)
            except BadRequest as refusal:
                name = self._rejected.learn(refusal, body)
                if name is None:
                    raise
                if name == "n":
                    return []
            else:
                return self._replies(answer)[:n]

    def _body(self, prompt: Prompt, n: int) -> dict[str, Any]:
        limit = "max_completion_tokens" if "max_tokens" in self._rejected else "max_tokens"
        ours: dict[str, Any] = {
            "model": self.model,
            "messages": prompt.messages,
            "temperature": prompt.temperature,
            "seed": prompt.seed,
        }
        if "max_completion_tokens" not in self._extra:  # OpenAI refuses a request that has both limits
            ours[limit] = prompt.max_tokens + (_THINKING if self._reasons or self._no_thinking else 0)
        if self._reasons:
            ours["reasoning_effort"] = "low"
        if n > 1:
            ours["n"] = n
        return self._rejected.strip(ours | self._no_thinking) | self._extra

    def _replies(self, answer: Mapping[str, Any]) -> list[Reply]:
        choices = answer.get("choices")
        if not isinstance(choices, list) or not choices:
            raise self.endpoint.malformed("no choices", answer)
        replies = [self._reply(choice) for choice in choices]
        return [replace(replies[0], usage=_usage(answer.get("usage"))), *replies[1:]]

    def _reply(self, choice: Any) -> Reply:
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            raise self.endpoint.malformed("a choice without a message", choice)
        return Reply(text_of(message.get("content")), truncated=choice.get("finish_reason") == "length")


def _no_thinking(base: str) -> dict[str, Any]:
    """Return the fields that switch thinking off: OpenRouter's own, or those that vLLM, SGLang and llama.cpp take."""
    if "openrouter.ai" in base:
        return {"reasoning": {"effort": "none"}}
    return {"chat_template_kwargs": {"enable_thinking": False}}


def _base(given: str | None) -> str:
    return base_url(given or os.environ.get("OPENAI_BASE_URL") or _OPENAI)


def _headers(base: str, api_key: str | None, extra: Mapping[str, str] | None) -> dict[str, str]:
    headers = dict(extra or {})
    key = (os.environ.get("OPENAI_API_KEY", "") if api_key is None else api_key).strip()
    if key:
        return {"Authorization": f"Bearer {key}"} | headers
    if base == _OPENAI and not headers:
        raise ConfigError("OpenAI needs a key: set OPENAI_API_KEY, or pass api_key in Python")
    return headers


def _usage(usage: object) -> Usage:
    """Return the tokens of one request. Its cost stays 0 here: it is added later, from the price table."""
    if not isinstance(usage, dict):
        return Usage(requests=1, cost=None)
    return Usage(1, count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")))
