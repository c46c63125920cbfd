"""A draft that runs in this process, with `generate` of Hugging Face transformers.

The prompt is most of the work, so the model reads it once, and `generate` writes all N sketches in parallel from that
one reading. Events take turns: for many at a time, a server such as vLLM is the better choice.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from ..errors import ConfigError, DraftError, FocusError, MissingExtraError
from ..types import Prompt, Reply, Usage
from .local_model import LoadedModel, Source, first_line, locate

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
            do_sample=False,  # `_Draws` leaves one token to choose from
            logits_processor=[_Draws(model, prompt, n, self._min_p)] if prompt.temperature else [],
            stopping_criteria=[_Progress(model, len(tokens), prompt.max_tokens, hand_over, stopped)],
        )


class _Draws:
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
