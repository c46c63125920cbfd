"""A model and its tokenizer, loaded with transformers: from text to tokens, and through the model once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ConfigError, DraftRefused, MissingExtraError
from ...types import Prompt

_CHUNK = {"cpu": 512, "cuda": 16_384}
"""Prompt tokens read between two looks at the stop sign: on a CPU a whole prompt can take minutes."""


class Stopped(Exception):
    """Nobody waits for this work any more."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model is, and how to load it."""

    name: str
    folder: str
    gguf: str | None
    device: str | None
    dtype: str
    options: Mapping[str, Any]

    def load(self) -> LoadedModel:
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtraError("the transformers draft", "transformers") from error
        device = self.device or _best_device(torch)
        where = {"gguf_file": self.gguf} if self.gguf else {}
        # A GGUF file would come out as float32: on a GPU that is half the speed, for weights of a few bits.
        dtype = "bfloat16" if self.dtype == "auto" and self.gguf and device.startswith("cuda") else self.dtype
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder, **where, **_for_tokenizer(self.options))
            model = transformers.AutoModelForCausalLM.from_pretrained(self.folder, dtype=dtype, **where, **self.options)
            if "device_map" not in self.options:
                model = model.to(device)
        except Exception as error:  # each kind of source fails with errors of its own
            raise DraftRefused(f"{self.name} cannot be loaded: {short(error)}") from error
        return LoadedModel(torch, model, tokenizer, _ends(model, tokenizer))


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that reads tokens. It keeps nothing between calls: what it has read is in the cache it returns."""

    torch: Any
    model: Any
    tokenizer: Any
    ends: frozenset[int]
    """The tokens that end a reply."""

    @property
    def device(self) -> Any:
        return self.model.device

    def ready(self) -> AbstractContextManager[Any]:
        """What all work with the model is done within."""
        within = ExitStack()
        within.enter_context(self.torch.inference_mode())
        within.enter_context(_attention(self.torch, self.device))
        return within

    def encode(self, prompt: Prompt) -> list[int]:
        if self.tokenizer.chat_template is None:
            return list(self.tokenizer(str(prompt))["input_ids"])
        try:
            return self._as_chat(prompt.messages)
        except Exception:  # some templates know no system role and raise an error of their own making
            return self._as_chat([{"role": "user", "content": str(prompt)}])

    def _as_chat(self, messages: list[dict[str, str]]) -> list[int]:
        chat = self.tokenizer.apply_chat_template(
            messages,
            add_generation_prompt=True,
            return_dict=True,
            enable_thinking=False,  # a sketch is short; templates without this switch ignore it
        )
        return list(chat["input_ids"])

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))

    def check_room(self, prompt: int, more: int) -> None:
        window = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if window is not None and prompt + more > window:
            raise DraftRefused(
                f"the prompt has {prompt} tokens and a sketch may have {more}, but the model's context is "
                f"{window}; lower draft_window or sketch_tokens, or take a model with a longer context"
            )

    def read(self, tokens: Sequence[int], stopped: Callable[[], bool], cache: Any = None) -> tuple[Any, Any]:
        """Go on from a cache: the scores for the token after the last one, and the cache after it."""
        logits = None
        step = _CHUNK.get(self.device.type, _CHUNK["cpu"])
        for start in range(0, len(tokens), step):
            if stopped():
                raise Stopped
            logits, cache = self.forward([tokens[start : start + step]], cache)
        return logits[:, -1] if logits is not None else None, cache

    def forward(self, tokens: Sequence[Sequence[int]], cache: Any, last: int = 1, **more: Any) -> tuple[Any, Any]:
        """One pass: [rows, last, words], and the cache. Not for all places of a prompt: that would take gigabytes."""
        batch = self.torch.tensor(tokens, device=self.device)
        out = self.model(input_ids=batch, past_key_values=cache, use_cache=True, logits_to_keep=last, **more)
        return out.logits, out.past_key_values


def locate(model: str | Path, gguf_file: str | None) -> tuple[str, str | None]:
    """The folder or hub name to load from, and the GGUF file in it, if it is one."""
    path = Path(model).expanduser()
    if path.suffix == ".gguf":
        if gguf_file is not None:
            raise ConfigError(f"{model} is a GGUF file already: leave out gguf_file={gguf_file!r}")
        if not path.is_file():
            raise ConfigError(f"no such GGUF file: {path}")
        return str(path.parent), path.name
    if path.is_dir():
        return str(path), gguf_file
    if isinstance(model, Path) or str(model).startswith(("/", ".", "~")):
        raise ConfigError(f"no such model folder: {path}")
    return model, gguf_file


def short(error: Exception) -> str:
    """The first line, cut: what torch and the hub say can fill pages."""
    line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {line[:200]}"


def _best_device(torch: Any) -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _attention(torch: Any, device: Any) -> AbstractContextManager[Any]:
    """Without cuDNN's attention: it plans anew for each length it meets, and here each token has a new one."""
    if device.type != "cuda":
        return nullcontext()
    kinds = torch.nn.attention.SDPBackend
    return torch.nn.attention.sdpa_kernel(  # type: ignore[no-any-return]
        [kinds.FLASH_ATTENTION, kinds.EFFICIENT_ATTENTION, kinds.MATH]
    )


def _unpacked(transformers: Any, gguf: str | None) -> dict[str, Any]:
    """Weights that stay packed are unpacked again in every pass, where no kernel for them is installed."""
    config = getattr(transformers, "GgufConfig", None)
    return {"quantization_config": config(dequantize=True)} if gguf and config is not None else {}


def _for_tokenizer(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that say where to load from rather than how to run the model."""
    where = {"revision", "subfolder", "token", "cache_dir", "local_files_only", "trust_remote_code"}
    return {name: value for name, value in options.items() if name in where}


def _ends(model: Any, tokenizer: Any) -> frozenset[int]:
    """Chat models often end a turn with another token than a text; either may be named in either place."""
    found: set[int] = set()
    for named in (model.generation_config.eos_token_id, tokenizer.eos_token_id):
        found.update([named] if isinstance(named, int) else named or ())
    return frozenset(found)
