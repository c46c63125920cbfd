"""Replies written side by side, one token of each at a time. A prompt is read by itself, then joins the batch.

`ManyPrompts` holds the replies to any number of prompts, where the model's attention allows it (whether it does is
tried once, not guessed). `OnePrompt` works for every model: the prompt's cache, repeated for each of its replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from . import attention
from .many_prompts import ManyPrompts
from .model import LoadedModel


class Batch(Protocol):
    """Rows, each the reply to a prompt that was read before."""

    def room_for(self, prompt: int, rows: int, tokens: int) -> bool:
        """Whether a prompt of that length can join, with that many replies of at most so many tokens."""

    def add(self, cache: Any, rows: int, tokens: int) -> None:
        """New rows, behind those there are, which go on from the cache of one prompt."""

    def step(self, tokens: Sequence[int]) -> Any:
        """The scores for the next token of each row, given its latest one."""

    def keep(self, live: Sequence[int]) -> None:
        """Only the rows at these places go on."""


class OnePrompt:
    """The cache that transformers made, one row of it for each reply."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._cache: Any = None

    def room_for(self, prompt: int, rows: int, tokens: int) -> bool:  # noqa: ARG002
        return self._cache is None

    def add(self, cache: Any, rows: int, tokens: int) -> None:  # noqa: ARG002
        self._cache = cache
        self.keep([0] * rows)

    def step(self, tokens: Sequence[int]) -> Any:
        logits, self._cache = self._model.forward([[token] for token in tokens], self._cache)
        return logits[:, -1]

    def keep(self, live: Sequence[int]) -> None:
        if not live:
            self._cache = None
            return
        # Meant for beam search, this picks rows of the cache. Unlike the methods that say so in their names, it
        # works for every kind of cache layer.
        self._cache.reorder_cache(self._model.torch.tensor(live, device=self._model.device))


def batch_for(model: LoadedModel, limit: int | None) -> Batch:
    """The batch that suits the model. Without a limit half of the free memory of a GPU is taken, 32,768 tokens else."""
    with model.ready():
        try:
            size = _try(model)
        except Exception:  # many architectures, many ways not to fit: the other batch works for all of them
            size = 0
    if not size:
        return OnePrompt(model)
    if limit is None:
        on_gpu = model.device.type == "cuda"
        limit = model.torch.cuda.mem_get_info(model.device)[0] // 2 // size if on_gpu else 32_768
    return ManyPrompts(model, limit)


def _try(model: LoadedModel) -> int:
    """The bytes that a token takes in the cache, or 0 where two prompts in one batch do not write as they do alone."""
    if not attention.install(model.model):
        return 0
    many, alone, size = ManyPrompts(model, 0), [], 0
    for prompt in ([1, 2, 3, 4, 5], [6, 7, 8]):
        _, cache = model.read(prompt, lambda: False)
        if any(type(layer).__name__ != "DynamicLayer" for layer in cache.layers):
            return 0  # a window, or a state: the prompt's keys are not all there
        size = sum(side.nbytes for layer in cache.layers for side in (layer.keys, layer.values)) // len(prompt)
        one = OnePrompt(model)
        _, copy = model.read(prompt, lambda: False)
        one.add(copy, 1, 2)
        many.add(cache, 1, 2)
        alone.append(one)
    for token in (9, 10):
        expected = model.torch.cat([one.step([token]) for one in alone]).float()
        found = many.step([token, token]).float()
        if not (found - expected).abs().max() < 0.05 * (expected.max() - expected.min()):
            return 0
    return size
