"""Any model that the `sentence-transformers` package runs: a hub name or a folder."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from threading import Lock
from typing import Any

from focusctx.errors import ConfigError, MissingExtraError


class SentenceTransformersEmbedder:
    """Loads the model at first use. Runs that share it take turns."""

    def __init__(self, model: str) -> None:
        if find_spec("sentence_transformers") is None:
            raise MissingExtraError("the embedder sentence-transformers:", "sentence-transformers", "focusctx-bench")
        self._name = model
        self._model: Any = None
        self._lock = Lock()

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            vectors: list[list[float]] = self._model.encode(list(texts), show_progress_bar=False).tolist()
        return vectors

    def _load(self) -> Any:
        from sentence_transformers import SentenceTransformer

        try:
            return SentenceTransformer(self._name)
        except (OSError, ValueError) as error:
            raise ConfigError(f"the embedding model {self._name} cannot be loaded: {error}") from error
