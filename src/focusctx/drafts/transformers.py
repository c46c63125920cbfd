"""A draft that runs in this process, with `generate` of Hugging Face transformers.

The prompt is most of the work, so the model reads it once, and `generate` writes all N sketches in parallel from that
one reading. Events take turns: for many at a time, a server such as vLLM is the better choice.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from ..errors import ConfigError, DraftError, DraftRefused, FocusError, MissingExtraError
from ..types import Prompt, Reply, Usage

T = TypeVar("T")


class TransformersDraft:
    """A model from a local folder, the hub or a GGUF file, loaded once, at the first sketch, and kept.

    Args:
        model: A folder, the name of a model on the hub, or a GGUF file.
        gguf_file: Name of the GGUF file, if `model` is a folder or a name on the hub.
        device: The best available unless given.
        dtype: `auto` takes what the files say.
        min_p: Tokens less than this many times as likely as the likeliest are never drawn: small models lose the line
            format in that tail.
        load: Passed unchanged to `from_pretrained` (`revision`, `quantization_config`, `device_map`,
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
        load: Mapping[str, Any] | None = None,
    ) -> None:
        if not 0 <= min_p <= 1:
            raise ConfigError(f"min_p must be between 0 and 1, got {min_p!r}")
        folder, gguf = locate(model, gguf_file)
        _need("torch", "transformers", *(("gguf", "accelerate") if gguf else ()))
        self._name = f"transformers:{model}"
        self._source = Source(self._name, folder, gguf, device, dtype, dict(load or {}))
        self._min_p = min_p
        self._model: LoadedModel | None = None
        self._worker = _Worker()
        weakref.finalize(self, self._worker.end)

    @property
    def name(self) -> str:
        return self._name

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[Reply | None] = asyncio.Queue()
        stop = threading.Event()

        def hand_over(reply: Reply | None) -> None:
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(arrived.put_nowait, reply)

        job = self.submit(lambda model, stopped: self._write(model, prompt, n, hand_over, stopped), stop)
        job.add_done_callback(lambda _: hand_over(None))
        try:
            while (reply := await arrived.get()) is not None:
                yield reply
            job.result()  # raises what went wrong
        finally:
            stop.set()
            job.cancel()

    def submit(self, work: Callable[[LoadedModel, Callable[[], bool]], T], stop: threading.Event) -> Future[T]:
        """Run `work` on the model's thread, after all earlier jobs. The first job loads the model.

        `work` gets the model, and a function that returns True if it should stop: `stop` is set, or the program ends.
        """
        return self._worker.submit(lambda: self._run(work, stop))

    def _run(self, work: Callable[[LoadedModel, Callable[[], bool]], T], stop: threading.Event) -> T:
        try:
            self._model = self._model or self._source.load()
            with self._model.in_use():
                return work(self._model, lambda: stop.is_set() or self._worker.ending)
        except FocusError:
            raise
        except Exception as error:  # out of memory, a model that cannot do this: the agent goes on
            raise DraftError(f"{self._name} failed: {first_line(error)}") from error

    def _write(
        self,
        model: LoadedModel,
        prompt: Prompt,
        n: int,
        hand_over: Callable[[Reply], None],
        stopped: Callable[[], bool],
    ) -> None:
        torch = model.torch
        tokens = model.encode(prompt)
        model.check_room(len(tokens), prompt.max_tokens)
        cache = model.read(tokens[:-1], stopped)
        if cache is not None:
            # Repeats the prompt for each sketch. Unlike `batch_repeat_interleave`, this works for all cache layers.
            cache.reorder_cache(torch.zeros(n, dtype=torch.long, device=model.device))
        rows = torch.tensor([tokens] * n, device=model.device)
        model.model.generate(
            rows,
            attention_mask=torch.ones_like(rows),
            past_key_values=cache,
            max_new_tokens=prompt.max_tokens,
            do_sample=False,  # `_Sampler` leaves one token to choose from
            logits_processor=[_Sampler(model, prompt, n, self._min_p)] if prompt.temperature else [],
            stopping_criteria=[_Progress(model, len(tokens), prompt.max_tokens, hand_over, stopped)],
        )


class _Sampler:
    """Draws the next token of each row from its own random stream, and rules out all others.

    `generate` would draw from the program's global stream. Here row k has the seed `seed + k`, so it gets the same
    sketch whether it is written alone or beside others, and the program's random numbers stay as they are.
    """

    def __init__(self, model: LoadedModel, prompt: Prompt, n: int, min_p: float) -> None:
        self._torch = model.torch
        self._temperature = prompt.temperature
        self._min_p = min_p
        self._streams = [model.torch.Generator(model.device).manual_seed(prompt.seed + k) for k in range(n)]

    def __call__(self, _: Any, scores: Any) -> Any:
        chances = (scores / self._temperature).softmax(-1)
        chances[chances < self._min_p * chances.amax(-1, keepdim=True)] = 0
        rows = zip(chances, self._streams, strict=True)
        drawn = self._torch.stack([self._torch.multinomial(row, 1, generator=stream) for row, stream in rows])
        return self._torch.full_like(scores, float("-inf")).scatter_(1, drawn, 0.0)


class _Progress:
    """Hands out each sketch as soon as it ends, and stops all of them once the caller no longer waits.

    `generate` calls this after each token of all rows.
    """

    def __init__(
        self,
        model: LoadedModel,
        prompt_tokens: int,
        limit: int,
        hand_over: Callable[[Reply], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._model = model
        self._prompt_tokens = prompt_tokens
        self._limit = limit
        self._hand_over = hand_over
        self._stopped = stopped
        self._done: set[int] = set()

    def __call__(self, ids: Any, _: Any) -> Any:
        written = ids[:, self._prompt_tokens :]
        for row, last in enumerate(written[:, -1].tolist()):
            ended = last in self._model.ends
            if row not in self._done and (ended or written.shape[1] == self._limit):
                self._hand_over(self._reply(written[row].tolist(), truncated=not ended))
                self._done.add(row)
        return self._model.torch.full(ids.shape[:1], self._stopped(), device=ids.device)

    def _reply(self, tokens: list[int], *, truncated: bool) -> Reply:
        usage = Usage(output_tokens=len(tokens))
        if not self._done:  # the first reply carries the request and its input
            usage += Usage(requests=1, input_tokens=self._prompt_tokens)
        return Reply(self._model.decode(tokens), usage, truncated)


class _Worker:
    """A thread that runs one job after the other, started by the first one.

    It is a daemon, unlike an executor's thread: for that, Python would wait at exit until the running job ends,
    however long it takes. But Python stops daemons at any point, and torch then aborts the process, hence `end`.
    """

    def __init__(self) -> None:
        self.ending = False
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def job() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)

        self._jobs.put(job)
        with self._starting:
            if self._thread is None or not self._thread.is_alive():  # a forked process has no thread yet
                self._thread = threading.Thread(target=self._run, name="focusctx-draft", daemon=True)
                self._thread.start()
        return future

    def end(self) -> None:
        """Stop the thread: at once if it is idle, else after one step of the model."""
        self.ending = True
        self._jobs.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=30)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None and not self.ending:
            job()
            del job  # and with it the draft, which may have no other reference


def _need(*packages: str) -> None:
    """Raise at once if a package is missing, without the seconds that importing it would take."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtraError("the transformers draft", "transformers")


# ------------------------------------------------------------------------------------------ the model and its tokenizer


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
