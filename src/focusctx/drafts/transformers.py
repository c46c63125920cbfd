"""A draft run in this process with Hugging Face transformers.

The prompt is most of the work, so the model reads it once: the memory it leaves (the KV cache) is repeated N
times and the N sketches are written side by side, as one batch. We draw the tokens ourselves rather than call
`generate`: each sketch then has a random stream of its own, the user's global one stays untouched, and a
sketch is handed out as soon as it ends.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

from ..errors import ConfigError, DraftError, DraftRefused, FocusError, MissingExtraError
from ..types import Prompt, Reply, Usage

_CHUNK = 512
"""Prompt tokens read between two looks at the stop sign: on a CPU a whole prompt can take minutes."""

_HandOver: TypeAlias = Callable[[Reply | FocusError | None], None]


class TransformersDraft:
    """A local folder, a hub name, or a GGUF file. Loaded at the first sketch, once, and kept.

    `device` is the best there is unless named. Tokens less than `min_p` times as likely as the likeliest are
    never drawn: small models lose the line format in that tail. `load` goes to `from_pretrained` as it is
    (`revision`, `quantization_config`, `device_map`, `trust_remote_code`, …).
    """

    def __init__(
        self,
        model: str | Path,
        *,
        gguf_file: str | None = None,
        device: str | None = None,
        dtype: str = "auto",
        min_p: float = 0.05,
        load: Mapping[str, Any] | None = None,
    ) -> None:
        if not 0 <= min_p <= 1:
            raise ConfigError(f"min_p must be between 0 and 1, got {min_p!r}")
        self._name = f"transformers:{model}"
        self._source, self._gguf = _locate(model, gguf_file)
        _need("torch", "transformers", *(("gguf", "accelerate") if self._gguf else ()))
        self._device = device
        self._dtype = dtype
        self._min_p = min_p
        self._options = dict(load or {})
        self._loaded: _Writer | None = None
        self._worker = _Worker()
        weakref.finalize(self, self._worker.end)

    @property
    def name(self) -> str:
        return self._name

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[Reply | FocusError | None] = asyncio.Queue()

        def hand_over(item: Reply | FocusError | None) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(arrived.put_nowait, item)

        job = _Job(lambda stop: self._work(prompt, n, stop, hand_over))
        self._worker.do(job)
        try:
            while (item := await arrived.get()) is not None:
                if isinstance(item, FocusError):
                    raise item
                yield item
        finally:
            job.stop.set()

    def _work(self, prompt: Prompt, n: int, stop: threading.Event, hand_over: _HandOver) -> None:
        """What the thread does. Whatever happens, something is handed over, or the caller waits for ever."""
        try:
            self._loaded = self._loaded or self._load()
            for reply in self._loaded.write(prompt, n, stop):
                hand_over(reply)
            hand_over(None)
        except _Stopped:
            pass
        except FocusError as error:
            hand_over(error)
        except Exception as error:  # out of memory, a model that cannot do this: the agent goes on
            hand_over(DraftError(f"{self.name} failed: {_short(error)}"))

    def _load(self) -> _Writer:
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtraError("the transformers draft", "transformers") from error
        device = self._device or _best_device(torch)
        where = {"gguf_file": self._gguf} if self._gguf else {}
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                self._source, **where, **_for_tokenizer(self._options)
            )
            model = transformers.AutoModelForCausalLM.from_pretrained(
                self._source, dtype=self._dtype, **where, **self._options
            )
            if "device_map" not in self._options:
                model = model.to(device)
        except Exception as error:  # each kind of source fails with errors of its own
            raise DraftRefused(f"{self.name} cannot be loaded: {_short(error)}") from error
        return _Writer(torch, model, tokenizer, self._min_p, _ends(model, tokenizer))


@dataclass(frozen=True, slots=True)
class _Writer:
    """A loaded model that writes N continuations of one prompt."""

    torch: Any
    model: Any
    tokenizer: Any
    min_p: float
    ends: frozenset[int]
    """The tokens that end a reply."""

    def write(self, prompt: Prompt, n: int, stop: threading.Event) -> Iterator[Reply]:
        """The replies, each when it ends. The first carries the request and its input."""
        tokens = self._encode(prompt)
        self._check_room(len(tokens), prompt.max_tokens)
        usage = Usage(requests=1, input_tokens=len(tokens))
        for row in self._continue(tokens, prompt, n, stop):
            ended = row.tokens[-1] in self.ends
            text = self.tokenizer.decode(row.tokens, skip_special_tokens=True)
            yield Reply(text, usage + Usage(output_tokens=len(row.tokens)), truncated=not ended)
            usage = Usage()

    def _encode(self, prompt: Prompt) -> list[int]:
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

    def _check_room(self, prompt: int, sketch: int) -> None:
        window = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if window is not None and prompt + sketch > window:
            raise DraftRefused(
                f"the prompt has {prompt} tokens and a sketch may have {sketch}, but the model's context is "
                f"{window}; lower draft_window or sketch_tokens, or take a model with a longer context"
            )

    def _continue(self, tokens: list[int], prompt: Prompt, n: int, stop: threading.Event) -> Iterator[_Row]:
        """The rows, in the order in which they end; a row that has ended leaves the batch."""
        torch, device = self.torch, self.model.device
        rows = [_Row(torch.Generator(device).manual_seed(prompt.seed + k)) for k in range(n)]
        with torch.inference_mode(), _attention(torch, device):
            logits, cache = self._read(tokens, stop)
            # Meant for beam search, this picks rows of the cache: n times the first one, later the live ones.
            # Unlike the methods that say so in their names, it works for every kind of cache layer.
            cache.reorder_cache(torch.zeros(n, dtype=torch.long, device=device))
            logits = logits.expand(n, -1)
            for length in range(1, prompt.max_tokens + 1):
                _go_on(stop)
                for row, scores in zip(rows, logits, strict=True):
                    row.tokens.append(self._draw(scores, prompt.temperature, row.generator))
                over = [length == prompt.max_tokens or row.tokens[-1] in self.ends for row in rows]
                yield from (row for row, ended in zip(rows, over, strict=True) if ended)
                live = [place for place, ended in enumerate(over) if not ended]
                if not live:
                    return
                if len(live) < len(rows):
                    cache.reorder_cache(torch.tensor(live, device=device))
                    rows = [rows[place] for place in live]
                logits = self._forward([[row.tokens[-1]] for row in rows], cache)[0]

    def _read(self, tokens: list[int], stop: threading.Event) -> tuple[Any, Any]:
        """The model's state after the prompt: its scores for the next token, and its cache."""
        logits = cache = None
        for start in range(0, len(tokens), _CHUNK):
            _go_on(stop)
            logits, cache = self._forward([tokens[start : start + _CHUNK]], cache)
        return logits, cache

    def _forward(self, tokens: list[list[int]], cache: Any) -> tuple[Any, Any]:
        batch = self.torch.tensor(tokens, device=self.model.device)
        # Only the last place's scores are of use; for all places they would take gigabytes.
        out = self.model(input_ids=batch, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1].float(), out.past_key_values

    def _draw(self, scores: Any, temperature: float, generator: Any) -> int:
        if temperature == 0:
            return int(scores.argmax())
        chances = self.torch.softmax(scores / temperature, dim=-1)
        chances = chances * (chances >= self.min_p * chances.max())
        return int(self.torch.multinomial(chances, 1, generator=generator))


@dataclass(slots=True)
class _Row:
    """One reply in the making."""

    generator: Any
    tokens: list[int] = field(default_factory=list)


class _Stopped(Exception):
    """Nobody waits for this work any more."""


@dataclass(frozen=True, slots=True)
class _Job:
    """Work, and the stop sign it looks at."""

    work: Callable[[threading.Event], None]
    stop: threading.Event = field(default_factory=threading.Event)


class _Worker:
    """A daemon thread that does one job after the other: two batches at once would only slow each other down."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._current: _Job | None = None
        self._over = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def do(self, job: _Job) -> None:
        with self._starting:
            if self._thread is None or not self._thread.is_alive():  # a fork has the object, but no thread
                self._thread = threading.Thread(target=self._run, name="focusctx-draft", daemon=True)
                self._thread.start()
        self._jobs.put(job)

    def end(self) -> None:
        """At its exit Python takes down daemon threads wherever they are, and torch then aborts the process."""
        self._over = True
        if self._current is not None:
            self._current.stop.set()
        self._jobs.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=30)

    def _run(self) -> None:
        while self._next():
            pass

    def _next(self) -> bool:
        """Do one job. A method of its own, so that no variable keeps the job, and its draft, alive after it."""
        self._current = self._jobs.get()
        if self._current is None or self._over:
            return False
        if not self._current.stop.is_set():
            self._current.work(self._current.stop)
        self._current = None
        return True


def _go_on(stop: threading.Event) -> None:
    if stop.is_set():
        raise _Stopped


def _need(*packages: str) -> None:
    """Say at once what is missing, without the seconds that importing it would take."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtraError("the transformers draft", "transformers")


def _locate(model: str | Path, gguf_file: str | None) -> tuple[str, str | None]:
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


def _short(error: Exception) -> str:
    """The first line, cut: what torch and the hub say can fill pages."""
    line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {line[:200]}"
