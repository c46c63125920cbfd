"""Embedders by name, such as `embedder="words"`. `focusctx-bench` adds those that need a model."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import log1p
from typing import Any, TypeAlias
from zlib import crc32

from ..errors import ConfigError
from ..plugins import INSTALL_BENCH, plugin
from ..types import Usage

Vectors: TypeAlias = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Embedded:
    """One vector per text, in order."""

    vectors: Vectors
    usage: Usage = Usage()


Embed: TypeAlias = Callable[[Sequence[str]], Awaitable[Embedded]]

_FORMS = """\
  words                                no embedding: the words that texts share
  openai:MODEL                         OpenAI's embeddings, or those of the server OPENAI_BASE_URL names
  openai:MODEL@http://HOST/v1          any OpenAI-compatible server
  wordllama                            static word vectors that the package of that name carries
  sentence-transformers:PATH_OR_NAME   a model run here, in this process
or a function from a list of texts to a list of vectors; all but words and functions come with focusctx-bench"""

_WORD = re.compile(r"\w+")
_DIMENSIONS = 4096


def embedder_from(embedder: str | Callable[[Sequence[str]], Any]) -> Embed:
    """Return the embedder for a name, or wrap a sync or async function as one."""
    if callable(embedder):
        return _embed_with(embedder)
    if embedder == "words":
        return _embed_with(embed_words)
    name, _, model = embedder.partition(":")
    maker = plugin("embedders", name)
    if maker is None and name in ("openai", "wordllama", "sentence-transformers"):
        raise ConfigError(f"the embedder {name} comes with focusctx-bench: {INSTALL_BENCH}")
    if maker is None or (not model and name != "wordllama"):
        raise ConfigError(f"unknown embedder {embedder!r}. Known forms:\n{_FORMS}")
    return _embed_with(maker(model))


def default_embedder() -> str:
    """Return the name of the best embedder that needs neither a key nor a choice: wordllama if it is installed."""
    return "wordllama" if plugin("embedders", "wordllama") and find_spec("wordllama") else "words"


def embed_words(texts: Sequence[str]) -> list[list[float]]:
    """Embed texts by the words in them, without a model: good enough where the same ids and names recur.

    A word's position is its checksum, its value its frequency on a logarithmic scale.
    """
    return [_word_vector(text) for text in texts]


def _word_vector(text: str) -> list[float]:
    vector = [0.0] * _DIMENSIONS
    for word, times in Counter(_WORD.findall(text.lower())).items():
        vector[crc32(word.encode()) % _DIMENSIONS] += log1p(times)
    return vector


def _embed_with(function: Callable[[Sequence[str]], Any]) -> Embed:
    """Make an embedder from any function. A sync one runs on a thread, so that it does not block the event loop."""

    async def embed(texts: Sequence[str]) -> Embedded:
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            vectors = await function(texts)
        else:
            vectors = await asyncio.to_thread(function, texts)
        return vectors if isinstance(vectors, Embedded) else Embedded(vectors)

    return embed
