"""Draft models behind Anthropic's Messages API."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
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

_ANTHROPIC = "https://api.anthropic.com"


class AnthropicDraft:
    """A model of Anthropic. Sends N parallel requests for N sketches: this API has no `n`. No tools are ever sent.

    Newer models do not accept `temperature`, and some insist on thinking: parameters that a model refuses
    are left out from then on.

    Args:
        model: Name of the model.
        base_url: Falls back to ANTHROPIC_BASE_URL, then to Anthropic.
        api_key: Falls back to ANTHROPIC_API_KEY (sent as `x-api-key`), then to ANTHROPIC_AUTH_TOKEN (sent as a bearer
            token); "" sends none.
        headers: Sent with each request.
        timeout: Limits one request, in seconds; by default only the event's `deadline` does.
        retries: How often a request is repeated when the server is busy or cannot be reached.
        extra_body: Fields that are sent unchanged and replace ours.
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
    ) -> None:
        base = _base(base_url)
        self.model = model
        self._name = f"anthropic:{model}" if base == _ANTHROPIC else f"anthropic:{model}@{base}"
        self.endpoint = Endpoint(f"{base}/v1/messages", _headers(base, api_key, headers), timeout, retries)
        """URL, headers, timeout and retries of its requests; may be replaced by another."""
        self._extra = dict(extra_body or {})
        self._rejected = RejectedParameters({"temperature", "thinking"} - self._extra.keys())

    @property
    def name(self) -> str:
        return self._name

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        async with open_session() as session:
            calls = (self._ask(session, prompt) for _ in range(n))
            async with aclosing(as_they_come(calls)) as replies:
                async for reply in replies:
                    yield reply

    async def _ask(self, session: aiohttp.ClientSession, prompt: Prompt) -> Reply:
        while True:
            body = self._body(prompt)
            try:
                answer = await self.endpoint.post(session, body)
            except BadRequest as refusal:
                if self._rejected.learn(refusal, body) is None:
                    raise
            else:
                return self._reply(answer)

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        ours = {
            "model": self.model,
            "max_tokens": prompt.max_tokens,
            "system": prompt.system,
            "messages": [{"role": "user", "content": prompt.user}],
            "temperature": min(prompt.temperature, 1.0),
            # On by default in newer models, and paid out of max_tokens: a sketch would come back empty.
            "thinking": {"type": "disabled"},
        }
        return self._rejected.strip(ours) | self._extra

    def _reply(self, answer: Mapping[str, Any]) -> Reply:
        content = answer.get("content")
        if not isinstance(content, list):
            raise self.endpoint.malformed("no content", answer)
        return Reply(text_of(content), _usage(answer.get("usage")), answer.get("stop_reason") == "max_tokens")


def _base(given: str | None) -> str:
    return base_url(given or os.environ.get("ANTHROPIC_BASE_URL") or _ANTHROPIC).removesuffix("/v1")


def _headers(base: str, api_key: str | None, extra: Mapping[str, str] | None) -> dict[str, str]:
    # The last version that accepts a temperature; later ones refuse it for every model.
    headers = {"anthropic-version": "2023-06-01"} | _credentials(api_key) | dict(extra or {})
    if base == _ANTHROPIC and len(headers) == 1:
        raise ConfigError("Anthropic needs a key: set ANTHROPIC_API_KEY, or pass api_key in Python")
    return headers


def _credentials(api_key: str | None) -> dict[str, str]:
    key = (os.environ.get("ANTHROPIC_API_KEY", "") if api_key is None else api_key).strip()
    if key:
        return {"x-api-key": key}
    token = os.environ.get("ANTHROPIC_AUTH_TOKEN", "").strip() if api_key is None else ""
    return {"Authorization": f"Bearer {token}"} if token else {}


def _usage(usage: object) -> Usage:
    """Return the tokens of one request. Its cost stays 0 here: it is added later, from the price table."""
    if not isinstance(usage, dict):
        return Usage(requests=1, cost=None)
    # The API counts tokens read from or written to its cache separately; all of them are input.
    parts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return Usage(1, sum(count(usage.get(part)) for part in parts), count(usage.get("output_tokens")))
