"""A draft run in this process with Hugging Face transformers.

The prompt is most of the work, so the model reads it once for all N sketches, and what several events ask at the
same time is written side by side, as one batch (`local/`). We draw the tokens ourselves rather than call `generate`:
each sketch then has a random stream of its own, the user's global one stays untouched, and a sketch is handed out
as soon as it ends.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from ..errors import ConfigError, FocusError, MissingExtraError
from ..types import Prompt, Reply
from .grammar import PlanGrammar
from .likelihood import Scored
from .local.engine import Engine, ScoreJob, WriteJob
from .local.model import Source, locate
from .small_prompt import for_small_models

_T = TypeVar("_T")


class TransformersDraft:
    """A local folder, a hub name, or a GGUF file. Loaded at the first sketch, once, and kept.

    `device` is the best there is unless named. Tokens less than `min_p` times as likely as the likeliest are
    never drawn: small models lose the line format in that tail. `batch_tokens` bounds the tokens of all prompts and
    sketches in memory at once; unless given, half of a GPU's free memory is used, or 32,768 tokens. With `grammar`
    nothing but the two line forms can be written; with `small_prompt` the question is asked in the words of
    `small_prompt.py`. `load` goes to `from_pretrained` as it is (`revision`, `quantization_config`, `device_map`,
    `trust_remote_code`, …).
    """

    def __init__(
        self,
        model: str | Path,
        *,
        gguf_file: str | None = None,
        device: str | None = None,
        dtype: str = "auto",
        min_p: float = 0.05,
        batch_tokens: int | None = None,
        grammar: bool = False,
        small_prompt: bool = False,
        load: Mapping[str, Any] | None = None,
    ) -> None:
        if not 0 <= min_p <= 1:
            raise ConfigError(f"min_p must be between 0 and 1, got {min_p!r}")
        if batch_tokens is not None and batch_tokens < 1:
            raise ConfigError(f"batch_tokens must be 1 or more, got {batch_tokens!r}")
        switches = [f"{name}=1" for name, on in (("grammar", grammar), ("small_prompt", small_prompt)) if on]
        self._name = f"transformers:{model}" + ("?" + "&".join(switches) if switches else "")
        folder, gguf = locate(model, gguf_file)
        _need("torch", "transformers", *(("gguf", "accelerate") if gguf else ()))
        source = Source(self._name, folder, gguf, device, dtype, dict(load or {}))
        self._grammar = grammar
        self._small_prompt = small_prompt
        self._engine = Engine(source, min_p, batch_tokens)
        weakref.finalize(self, self._engine.end)

    @property
    def name(self) -> str:
        return self._name

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        hand_over, arrived = _letter_box(Reply)
        prompt = for_small_models(prompt) if self._small_prompt else prompt
        grammar = PlanGrammar.of(prompt) if self._grammar else None
        job = WriteJob(hand_over=hand_over, prompt=prompt, n=n, grammar=grammar)
        self._engine.do(job)
        try:
            while (item := await arrived.get()) is not None:
                if isinstance(item, FocusError):
                    raise item
                yield item
        finally:
            job.stop.set()

    async def score(self, prompts: Sequence[Prompt], continuations: Sequence[str]) -> list[list[Scored]]:
        """How likely each continuation is after each prompt, token by token: see `likelihood.Scorer`."""
        hand_over, arrived = _letter_box(list[Scored])
        job = ScoreJob(hand_over=hand_over, prompts=tuple(prompts), continuations=tuple(continuations))
        self._engine.do(job)
        found: list[list[Scored]] = []
        try:
            while (item := await arrived.get()) is not None:
                if isinstance(item, FocusError):
                    raise item
                found.append(item)
        finally:
            job.stop.set()
        return found


def _letter_box(
    _: type[_T],
) -> tuple[Callable[[_T | FocusError | None], None], asyncio.Queue[_T | FocusError | None]]:
    """A function that another thread may call, and the queue of this event loop that it puts things into."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[_T | FocusError | None] = asyncio.Queue()

    def hand_over(item: _T | FocusError | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(arrived.put_nowait, item)

    return hand_over, arrived


def _need(*packages: str) -> None:
    """Say at once what is missing, without the seconds that importing it would take."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtraError("the transformers draft", "transformers")
