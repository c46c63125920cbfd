"""A draft that runs a GGUF file with llama.cpp, on the CPU or another device that its build supports.

llama.cpp runs as a server in a child process, on loopback and behind a random key: if it crashes or runs out of
memory, the agent goes on, and loading does not block the event loop. The child ends with its parent. One request asks
for all N sketches; they share one reading of the prompt.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..errors import ConfigError, DraftError, DraftRefused, DraftUnavailable, MissingExtraError
from ..types import Prompt, Reply, Usage
from .http import count

if TYPE_CHECKING:
    import aiohttp

_SLOTS = 8
"""Sketches written in parallel. A slot costs almost nothing, since all share one context."""


class LlamaCppDraft:
    """A model in a GGUF file, loaded once, at the first sketch, and kept until `close` or the end of the program.

    Args:
        path: The GGUF file.
        context: Tokens that the prompt and all N sketches may take together; memory for them is set aside when the
            model is loaded.
        threads: llama.cpp chooses the number unless it is given.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        context: int = 16_384,
        threads: int | None = None,
    ) -> None:
        self.path = Path(path).expanduser()
        if not self.path.is_file():
            raise ConfigError(f"no such GGUF file: {self.path}; download one, and pass its path")
        if context < 512:
            raise ConfigError(f"context must be 512 or more, got {context!r}")
        if threads is not None and threads < 1:
            raise ConfigError(f"threads must be 1 or more, got {threads!r}")
        if find_spec("xllamacpp") is None:
            raise MissingExtraError("the llama.cpp draft", "llama-cpp")
        self.context = context
        self.threads = threads
        self._server: _Server | None = None
        self._starting = threading.Lock()
        self._busy = threading.Lock()

    @property
    def name(self) -> str:
        return f"llama-cpp:{self.path.name}"

    def close(self) -> None:
        """Stop the model and free its memory. The next sketch loads it again."""
        with self._starting:
            if self._server is not None:
                self._server.stop()
                self._server = None

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        import aiohttp

        async with _turn(self._busy), await self._running().session() as session:
            try:
                await self._check_room(session, prompt, min(n, _SLOTS))
                for start in range(0, n, _SLOTS):
                    async for reply in _ask(session, prompt, start, min(n - start, _SLOTS)):
                        yield reply
            except (aiohttp.ClientError, OSError) as error:
                self.close()  # it may still be dying: the next event must not ask it again
                raise DraftUnavailable(f"{self.name} stopped answering: {error!r}") from error

    def _running(self) -> _Server:
        """Return the server, after starting one if there is none or the last one has died."""
        with self._starting:
            if self._server is None or not self._server.alive:
                settings = {"path": str(self.path), "context": self.context, "threads": self.threads}
                self._server = _Server(self.name, settings)
            return self._server

    async def _check_room(self, session: aiohttp.ClientSession, prompt: Prompt, sketches: int) -> None:
        """Refuse a prompt that is too long: llama.cpp would notice in the middle of writing, and drop all sketches."""
        body = {"messages": prompt.messages}
        async with session.post("/v1/chat/completions/input_tokens", json=body) as response:
            answer = await response.json()
            if response.status != 200:
                raise _refusal(answer)
        tokens, room = count(answer.get("input_tokens")), sketches * prompt.max_tokens
        if tokens + room > self.context:
            raise DraftRefused(
                f"the prompt has {tokens} tokens and {sketches} sketches may have {room}, but the context is "
                f"{self.context}; pass LlamaCppDraft(…, context={tokens + room}), or lower draft_window or "
                f"sketch_tokens"
            )


class _Server:
    """llama.cpp in a child process, which begins to load the model at once."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self._name = name
        self._key = secrets.token_urlsafe(24)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed by _end
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)},
            start_new_session=True,  # Ctrl+C goes to the program, which stops the server in its own way
        )
        self.stop = weakref.finalize(self, _end, self._process, self._log, os.getpid())
        self._url: Future[str] = Future()
        threading.Thread(target=self._start, args=(settings,), name="focusctx-llama-cpp", daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    async def session(self) -> aiohttp.ClientSession:
        """Connect once the model is loaded. A caller that stops waiting does not stop the loading."""
        import aiohttp

        url = await asyncio.shield(asyncio.wrap_future(self._url))
        # No time limit and no proxy: the caller has a deadline, and the server is on this machine.
        return aiohttp.ClientSession(
            url, headers={"Authorization": f"Bearer {self._key}"}, timeout=aiohttp.ClientTimeout(total=None)
        )

    def _start(self, settings: dict[str, Any]) -> None:
        """Send the child its settings by stdin, where other users cannot read the key, and read its address."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(settings | {"key": self._key}).encode() + b"\n")
            self._process.stdin.flush()  # and left open: its end tells the child that the parent is gone
            self._url.set_result(json.loads(self._process.stdout.readline())["url"])
        except (OSError, ValueError):  # it died before it had an address
            self._url.set_exception(DraftRefused(f"{self._name} cannot be loaded: {self._last_words()}"))

    def _last_words(self) -> str:
        with suppress(OSError, ValueError):  # the log is closed already if `close` was called
            self._process.wait(timeout=5)
            self._log.seek(0)
            lines = self._log.read().decode(errors="replace").strip().splitlines()
            return " / ".join(line.strip() for line in lines[-3:])[-400:] or "llama.cpp did not say why"
        return "it was closed"


def _end(process: subprocess.Popen[bytes], log: IO[bytes], parent: int) -> None:
    if os.getpid() != parent:  # a fork of the program ends, and the server belongs to its parent
        return
    with process, log:
        process.kill()  # it has nothing to save


def serve() -> None:
    """Run in the child process: load the model, print the address, and live as long as the parent."""
    settings = json.loads(sys.stdin.readline())
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # everything that llama.cpp prints goes to the log
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.n_ctx = settings["context"]
    if settings["threads"]:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.n_batch = params.n_ubatch  # an abandoned request stops only between batches
    params.n_parallel = _SLOTS
    params.kv_unified = True  # the sketches share the prompt's part of the context
    params.cache_ram_mib = 0  # or it keeps up to 8 GB of old prompts
    params.port = 0
    params.api_keys = [settings["key"]]
    params.cors_origins = ""  # not for web pages
    params.ui = False
    params.verbosity = 1  # errors only
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:  # the log says what is wrong with the file
        sys.exit(str(error))
    print(json.dumps({"url": server.listening_address}), file=answer, flush=True)
    sys.stdin.read()
    os._exit(0)


async def _ask(session: aiohttp.ClientSession, prompt: Prompt, start: int, n: int) -> AsyncIterator[Reply]:
    """Yield `n` replies of one request, each as soon as it ends. The first counts the request and its input."""
    body: dict[str, Any] = {
        "messages": prompt.messages,
        "n": n,
        "temperature": prompt.temperature,
        "max_tokens": prompt.max_tokens,
        "seed": prompt.seed + start,
        "chat_template_kwargs": {"enable_thinking": False},
        "stream": True,
    }
    texts = [""] * n
    missing = n
    async with session.post("/v1/chat/completions", json=body) as response:
        if response.status != 200:
            raise _refusal(await response.json())
        async for line in response.content:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line.removeprefix(b"data: "))
            if "error" in event:
                raise _refusal(event)
            for choice in event["choices"]:
                place = choice["index"]
                texts[place] += choice["delta"].get("content") or ""
                if choice["finish_reason"] is not None:
                    usage = _usage(event["timings"], first=missing == n)
                    missing -= 1
                    yield Reply(texts[place], usage, truncated=choice["finish_reason"] == "length")
    if missing:
        raise DraftUnavailable(f"llama.cpp ended its answer with {missing} of {n} sketches missing")


def _refusal(answer: dict[str, Any]) -> DraftError:
    error = answer["error"]
    kind = DraftRefused if error.get("code") == 400 else DraftUnavailable
    return kind(f"llama.cpp answered {error.get('code')}: {error.get('message')}")


def _usage(timings: dict[str, Any], *, first: bool) -> Usage:
    written = count(timings.get("predicted_n"))
    if not first:
        return Usage(output_tokens=written)
    # Tokens in its cache from an earlier prompt count as input too.
    return Usage(1, count(timings.get("prompt_n")) + count(timings.get("cache_n")), written)


@asynccontextmanager
async def _turn(busy: threading.Lock) -> AsyncIterator[None]:
    """Wait until the server is free: its context has room for one event. Events may run in different loops."""
    while not busy.acquire(blocking=False):
        await asyncio.sleep(0.05)
    try:
        yield
    finally:
        busy.release()
