"""Embeddings behind `/embeddings`: OpenAI, vLLM, llama.cpp, Ollama, most aggregators."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from focusctx.baselines.embedders import Embedded, Vectors
from focusctx.drafts.http import Endpoint, base_url, count, open_session
from focusctx.errors import ConfigError
from focusctx.prices import price_of
from focusctx.tokens import encoding
from focusctx.types import Usage

_OPENAI = "https://api.openai.com/v1"
_PATIENCE = 60.0
_RETRIES = 10
_LONGEST = 8000
"""Tokens of one text. OpenAI refuses more than 8,191; the beginning of a turn says what it was about."""
_TOGETHER = 32
"""Texts of one request: OpenAI takes 300,000 tokens in all."""


class OpenAICompatibleEmbedder:
    """`base_url` falls back to OPENAI_BASE_URL, then OpenAI; `api_key` to OPENAI_API_KEY, and "" sends none."""

    def __init__(self, model: str, *, base_url: str | None = None, api_key: str | None = None) -> None:
        base = _base(base_url)
        key = (os.environ.get("OPENAI_API_KEY", "") if api_key is None else api_key).strip()
        if not key and base == _OPENAI:
            raise ConfigError("OpenAI needs a key: set OPENAI_API_KEY or pass api_key")
        self._model = model
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._endpoint = Endpoint(f"{base}/embeddings", headers, timeout=_PATIENCE, retries=_RETRIES)
        self._price = price_of(model)

    @classmethod
    def named(cls, text: str) -> OpenAICompatibleEmbedder:
        """Read `MODEL` or `MODEL@URL`."""
        match = re.fullmatch(r"(.+?)@(https?://.+)", text)
        return cls(match[1], base_url=match[2]) if match else cls(text)

    async def __call__(self, texts: Sequence[str]) -> Embedded:
        vectors: list[Sequence[float]] = []
        usage = Usage()
        async with open_session() as session:
            for start in range(0, len(texts), _TOGETHER):
                asked = [_cut(text) for text in texts[start : start + _TOGETHER]]
                answer = await self._endpoint.post(session, {"model": self._model, "input": asked})
                vectors.extend(self._vectors(answer, len(asked)))
                usage += self._usage(answer.get("usage"))
        return Embedded(vectors, usage)

    def _vectors(self, answer: Mapping[str, Any], expected: int) -> Vectors:
        data = answer.get("data")
        try:
            placed = {entry["index"]: [float(value) for value in entry["embedding"]] for entry in data or ()}
            return [placed[place] for place in range(expected)]
        except (KeyError, TypeError, ValueError) as error:
            raise self._endpoint.malformed("no embeddings", answer) from error

    def _usage(self, usage: object) -> Usage:
        if not isinstance(usage, dict):
            return Usage(requests=1, cost=None)
        spent = Usage(1, count(usage.get("prompt_tokens")))
        return replace(spent, cost=self._price.cost(spent.input_tokens, 0) if self._price else None)


def _base(given: str | None) -> str:
    return base_url(given or os.environ.get("OPENAI_BASE_URL") or _OPENAI)


def _cut(text: str) -> str:
    """Cut the text to the most tokens that a server takes. An empty text would be refused."""
    if len(text.encode(errors="replace")) <= _LONGEST:
        return text or " "
    tokens = encoding("cl100k_base")
    return tokens.decode(tokens.encode_ordinary(text[: 8 * _LONGEST])[:_LONGEST])
