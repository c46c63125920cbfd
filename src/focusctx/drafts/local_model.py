"""A causal language model in this process, loaded with Hugging Face transformers, together with its tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError, DraftError, DraftRefused, MissingExtraError
from ..types import Prompt


@dataclass(frozen=True, slots=True)
class Source:
    """The location of a model, and how to load it."""

    name: str
    folder: str
    """A folder, or a name on the model hub."""
    gguf: str | None
    """The GGUF file in that folder, if the model is one."""
    device: str | None
    dtype: str
    options: Mapping[str, Any]
    """Passed on to `from_pretrained`."""

    def load(self) -> LoadedModel:
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtraError("the transformers draft", "transformers") from error
        device = self.device or _best_device(torch)
        where = {"gguf_file": self.gguf} if self.gguf else {}
        # A GGUF file is read as float32 by default: on a GPU that halves the speed, for weights of a few bits.
        dtype = "bfloat16" if self.dtype == "auto" and self.gguf and device.startswith("cuda") else self.dtype
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder, **where, **_for_tokenizer(self.options))
            model = transformers.AutoModelForCausalLM.from_pretrained(self.folder, dtype=dtype, **where, **self.options)
            if "device_map" not in self.options:
                model = model.to(device)
        except Exception as error:  # each kind of source raises its own errors
            raise DraftRefused(f"{self.name} cannot be loaded: {first_line(error)}") from error
        ends = _ends(model, tokenizer)
        # Replaces the sampling settings that come with the model: they suit chats, not sketches.
        model.generation_config = transformers.GenerationConfig(
            eos_token_id=sorted(ends) or None, pad_token_id=min(ends, default=0)
        )
        return LoadedModel(torch, model, tokenizer, ends)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in memory. It keeps no state between calls: the text it has read is in the cache it returns."""

    torch: Any
    model: Any
    tokenizer: Any
    ends: frozenset[int]
    """The tokens that end a reply."""

    @property
    def device(self) -> Any:
        return self.model.device

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Set up torch for all work with the model: no gradients, and no cuDNN attention.

        cuDNN makes a new plan for each length, and each token makes a new length: on an H200, three sketches of
        128 tokens took three times as long with it.
        """
        kinds = self.torch.nn.attention.SDPBackend
        others = [kinds.FLASH_ATTENTION, kinds.EFFICIENT_ATTENTION, kinds.MATH]
        on_gpu = self.device.type == "cuda"
        attention = self.torch.nn.attention.sdpa_kernel(others) if on_gpu else nullcontext()
        with self.torch.inference_mode(), attention:
            yield

    def encode(self, prompt: Prompt) -> list[int]:
        """Render the prompt with the chat template, if the model has one, and return its tokens."""
        if self.tokenizer.chat_template is None:
            return list(self.tokenizer(str(prompt))["input_ids"])
        try:
            return self._as_chat(prompt.messages)
        except Exception:  # some templates have no system role and raise their own errors
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
        """Raise `DraftRefused` if the model's context is too short for `prompt` tokens and `more` after them."""
        window = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if window is not None and prompt + more > window:
            raise DraftRefused(
                f"the prompt has {prompt} tokens and a sketch may have {more}, but the model's context is "
                f"{window}; lower draft_window or sketch_tokens, or take a model with a longer context"
            )

    def read(self, tokens: Sequence[int], stopped: Callable[[], bool], cache: Any = None) -> Any:
        """Run the model over tokens that follow those in `cache`, and return the cache with all of them.

        This is done in chunks, with a check of `stopped` before each: a CPU takes minutes for a long prompt.
        """
        step = 512 if self.device.type == "cpu" else 16_384
        for start in range(0, len(tokens), step):
            if stopped():
                raise DraftError("stopped: the caller no longer waits")
            chunk = self.torch.tensor([tokens[start : start + step]], device=self.device)
            cache = self.model(input_ids=chunk, past_key_values=cache, use_cache=True, logits_to_keep=1).past_key_values
        return cache


def locate(model: str | Path, gguf_file: str | None) -> tuple[str, str | None]:
    """Return the folder or hub name to load from, and the GGUF file in it, if the model is one."""
    path = Path(model).expanduser()
    if path.suffix == ".gguf":
        if gguf_file is not None:
            raise ConfigError(f"{model} is a GGUF file already: leave out gguf_file={gguf_file!r}")
        if not path.is_file():
            raise ConfigError(f"no such GGUF file: {path}; check the path")
        return str(path.parent), path.name
    if path.is_dir():
        return str(path), gguf_file
    if isinstance(model, Path) or str(model).startswith(("/", ".", "~")):
        raise ConfigError(f"no such model folder: {path}; check the path")
    return model, gguf_file


def first_line(error: Exception) -> str:
    """Return the error's type and first line, cut: messages of torch and the hub can fill pages."""
    line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {line[:200]}"


def _best_device(torch: Any) -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _for_tokenizer(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that say where to load from rather than how to run the model."""
    where = {"revision", "subfolder", "token", "cache_dir", "local_files_only", "trust_remote_code"}
    return {name: value for name, value in options.items() if name in where}


def _ends(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the ids that end a turn or a text: chat models often have two, and model and tokenizer may name either."""
    found: set[int] = set()
    for named in (model.generation_config.eos_token_id, tokenizer.eos_token_id):
        found.update([named] if isinstance(named, int) else named or ())
    return frozenset(found)
