"""Embedders that need a model, which `focusctx.baselines.embedders` finds by entry point."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from focusctx.baselines.embedders import Embedded, Vectors
from focusctx.drafts.http import Endpoint, count, open_session
from focusctx.drafts.http import base_url as served_at
from focusctx.errors import ConfigError, MissingExtraError
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
    """Embeddings behind `/embeddings`: OpenAI, vLLM, llama.cpp, Ollama, most aggregators.

    `base_url` falls back to OPENAI_BASE_URL, then OpenAI; the key is OPENAI_API_KEY.
    """

    def __init__(self, model: str, *, base_url: str | None = None) -> None:
        base = served_at(base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI)
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if not key and base == _OPENAI:
            raise ConfigError("OpenAI needs a key: set OPENAI_API_KEY")
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


def _cut(text: str) -> str:
    """Cut the text to the most tokens that a server takes. An empty text would be refused."""
    if len(text.encode(errors="replace")) <= _LONGEST:
        return text or " "
    tokens = encoding("cl100k_base")
    return tokens.decode(tokens.encode_ordinary(text[: 8 * _LONGEST])[:_LONGEST])


class SentenceTransformersEmbedder:
    """A model that `sentence-transformers` runs, by hub name or folder. Runs that share it take turns."""

    def __init__(self, model: str) -> None:
        if find_spec("sentence_transformers") is None:
            raise MissingExtraError("the embedder sentence-transformers:", "sentence-transformers", "focusctx-bench")
        self._name = model
        self._lock = Lock()

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        with self._lock:
            vectors: list[list[float]] = self._model.encode(list(texts), show_progress_bar=False).tolist()
        return vectors

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import SentenceTransformer

        try:
            return SentenceTransformer(self._name)
        except (OSError, ValueError) as error:
            raise ConfigError(f"the embedding model {self._name} cannot be loaded: {error}") from error


class WordLlamaEmbedder:
    """Static word vectors, averaged: the `wordllama` package with the weights it carries. Loaded at first use."""

    def __init__(self, _: str = "") -> None:
        if find_spec("wordllama") is None:
            raise MissingExtraError("the embedder wordllama", "wordllama", "focusctx-bench")
        self._lock = Lock()

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        with self._lock:
            vectors: list[list[float]] = self._model.embed(list(texts)).tolist()
        return vectors

    @cached_property
    def _model(self) -> Any:
        import wordllama

        # The package looks for its own tokenizer only where it would put a downloaded one.
        folder = Path(wordllama.__file__).parent
        return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
