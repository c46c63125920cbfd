"""Static word vectors, averaged: the `wordllama` package with the weights it carries. Small, fast, no download."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from focusctx.errors import MissingExtraError


class WordLlamaEmbedder:
    """Loads the vectors at first use."""

    def __init__(self, _: str = "") -> None:
        if find_spec("wordllama") is None:
            raise MissingExtraError("the embedder wordllama", "wordllama", "focusctx-bench")
        self._model: Any = None
        self._lock = Lock()

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        with self._lock:
            if self._model is None:
                self._model = _load()
        vectors: list[list[float]] = self._model.embed(list(texts)).tolist()
        return vectors


def _load() -> Any:
    import wordllama

    # The package looks for its own tokenizer only where it would put a downloaded one.
    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
