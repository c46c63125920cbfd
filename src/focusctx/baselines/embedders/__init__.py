"""From what a user writes, `embedder="wordllama"`, to a function that embeds texts."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...errors import ConfigError
from ...types import Usage

Vectors: TypeAlias = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Embedded:
    """One vector per text, in their order."""

    vectors: Vectors
    usage: Usage = Usage()


Embed: TypeAlias = Callable[[Sequence[str]], Awaitable[Embedded]]

_FORMS = """\
  openai:MODEL                         OpenAI's embeddings, or those of the server OPENAI_BASE_URL names
  openai:MODEL@http://HOST/v1          any OpenAI-compatible server
  wordllama                            static word vectors that the package of that name carries
  sentence-transformers:PATH_OR_NAME   a model run here, in this process
  words                                no model: the words that texts share
or a function from a list of texts to a list of vectors"""


def embedder_from(embedder: str | Callable[[Sequence[str]], Any]) -> Embed:
    """The embedder that a string names or that a function, sync or async, makes."""
    if callable(embedder):
        return _function(embedder)
    prefix, _, model = embedder.partition(":")
    if embedder == "words":
        from .words import embed_words

        return _function(embed_words)
    if embedder == "wordllama":
        from .wordllama import WordLlamaEmbedder

        return _function(WordLlamaEmbedder())
    if prefix == "sentence-transformers" and model:
        from .sentence_transformers import SentenceTransformersEmbedder

        return _function(SentenceTransformersEmbedder(model))
    if prefix == "openai" and model:
        from .openai_compatible import OpenAICompatibleEmbedder

        return OpenAICompatibleEmbedder.named(model)
    raise ConfigError(f"unknown embedder {embedder!r}. Known forms:\n{_FORMS}")


def _function(function: Callable[[Sequence[str]], Any]) -> Embed:
    """Any function as an embedder; a sync one runs on a thread, where it holds up nobody."""

    async def embed(texts: Sequence[str]) -> Embedded:
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            vectors = await function(texts)
        else:
            vectors = await asyncio.to_thread(function, texts)
        return vectors if isinstance(vectors, Embedded) else Embedded(vectors)

    return embed
