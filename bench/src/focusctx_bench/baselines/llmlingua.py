"""LLMLingua-2: a small classifier says of every word of the older turns whether it stays; those are the text.

Runs the `llmlingua` package as it is, in a thread of its own, one text at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, TypeAlias

from focusctx.baselines.method import turns_as_text
from focusctx.errors import ConfigError, MissingExtraError
from focusctx.tokens import encoding
from focusctx.types import Reply

from .summary import Older, Summary

MODEL = "microsoft/llmlingua-2-xlm-roberta-large-meetingbank"
_FAMILIES = ("xlm-roberta-large", "bert-base-multilingual-cased")

Shorten: TypeAlias = Callable[[str], str]
"""Reduces a text to the words of it that stay."""


class LLMLingua(Summary):
    name = "llmlingua"

    def __init__(self, shorten: Shorten, budget: int = 4096) -> None:
        super().__init__(budget)
        self._shorten = shorten

    async def write(self, older: Older) -> Reply:
        turns = turns_as_text(older.spans)
        text = f"{older.before}\n\n{turns}" if older.before else turns
        return Reply(await asyncio.to_thread(self._shorten, text))


class LLMLingua2:
    """The package with one model, loaded at first use; to be shared between runs, which then take turns.

    `model` is a hub name or a folder. The package tells how a model's tokens make up words by its name, so a folder's
    path has to contain `xlm-roberta-large` or `bert-base-multilingual-cased`, whichever the model is.
    """

    def __init__(self, model: str = MODEL, rate: float = 0.3, device: str = "cpu") -> None:
        if not 0 < rate <= 1:
            raise ConfigError(f"rate must be above 0 and at most 1, got {rate!r}")
        if not any(family in model for family in _FAMILIES):
            raise ConfigError(
                f"the name or path of an LLMLingua-2 model must contain {' or '.join(_FAMILIES)}, got {model!r}"
            )
        if find_spec("llmlingua") is None:
            raise MissingExtraError("LLMLingua", "llmlingua", "focusctx-bench")
        self._model = model
        self._rate = rate
        self._device = device
        self._lock = threading.Lock()
        self._compressor: Any = None

    def __call__(self, text: str) -> str:
        with self._lock:
            if self._compressor is None:
                self._compressor = self._load()
            shortened = self._compressor.compress_prompt([text], rate=self._rate, force_tokens=["\n"])
        return str(shortened["compressed_prompt"])

    def _load(self) -> Any:
        from llmlingua import PromptCompressor, prompt_compressor

        # It would download this very encoding, and refuse texts in which a special token is spelled out.
        prompt_compressor.tiktoken = SimpleNamespace(encoding_for_model=lambda _: encoding("cl100k_base"))
        try:
            return PromptCompressor(
                self._model,
                device_map=self._device,
                use_llmlingua2=True,
                model_config={"trust_remote_code": False},  # the package's default is True
            )
        except (OSError, ValueError) as error:
            raise ConfigError(f"LLMLingua's model {self._model} cannot be loaded: {error}") from error
