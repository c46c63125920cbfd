"""Who is measured, and how each is started: as its documentation says, with what would slow it down switched off.

LiteLLM runs in production mode with one worker, no database and no key check. headroom runs without its rate limit
(60 requests a minute) and without its answer cache (it would spare itself the upstream); it finds the tokenizer
files it would fetch, and does without the model it would fetch. Each server is a process of its own: started,
waited for, its CPU time and memory read, ended.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import TracebackType

from .plan import SIZES, WORKLOADS, Size

HERE = Path(__file__).resolve().parent
DISTRIBUTIONS = {"litellm": "litellm", "headroom": "headroom-ai"}
LITELLM_CONFIG = """\
model_list:
  - model_name: gpt-4.1
    litellm_params: {{model: openai/gpt-4.1, api_base: {upstream}/v1, api_key: sk-benchmark}}
litellm_settings: {{telemetry: false, request_timeout: 600}}
"""
TITLES = {
    "direct": "direct",
    "floor": "floor",
    "litellm": "LiteLLM",
    "headroom": "headroom",
    "focusctx-far": "focusctx, far below the budget",
    "focusctx-near": "focusctx, near the budget",
    "focusctx-after": "focusctx, after a decision",
    "focusctx-applies": "focusctx, applies a decision",
    "focusctx-at-once": "focusctx, asks the draft and applies",
}
PATIENCE = 180.0
"""Seconds to wait for a server: some need most of a minute on a busy machine."""


@dataclass(frozen=True)
class Contender:
    """One server: its name, how it is started, and what it is measured on."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    workloads: tuple[str, ...] = WORKLOADS
    sizes: tuple[Size, ...] = SIZES
    slow: bool = False
    """Measured on fewer requests."""
    shrinks: bool = False
    """True if less must go up than came."""


@dataclass(frozen=True)
class Stage:
    """The places of the contenders, and what they need."""

    upstream: str
    folder: Path
    """The folder with the virtual environments of the others."""
    scratch: Path

    def contender(self, name: str, port: int, size: Size) -> Contender:
        """Return a contender; those of focusctx that decide have a process for each size, as budgets differ."""
        if name == "floor":
            return Contender(name, (sys.executable, str(HERE / "floor.py"), str(port), self.upstream))
        if name == "litellm":
            return self._litellm(port)
        if name == "headroom":
            return self._headroom(port)
        if name == "focusctx-far":
            return self._far(port)
        return self._decides(name, port, size)

    def _litellm(self, port: int) -> Contender:
        config = self.scratch / "litellm.yaml"
        config.write_text(LITELLM_CONFIG.format(upstream=self.upstream))
        command = (str(self.folder / "litellm/bin/litellm"), "--config", str(config), "--port", str(port))
        environment = {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_LOG": "ERROR",
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        }
        return Contender("litellm", (*command, "--host", "127.0.0.1"), environment, WORKLOADS[:2], slow=True)

    def _headroom(self, port: int) -> Contender:
        program = self.folder / "headroom/bin/headroom"
        options = ("--no-rate-limit", "--no-cache", "--stateless", "--no-telemetry", "--no-subscription-tracking")
        command = (str(program), "proxy", "--port", str(port), "--openai-api-url", self.upstream, *options)
        tokenizers = next(self.folder.glob("headroom/lib/*/site-packages/litellm/litellm_core_utils/tokenizers"))
        environment = {
            "HF_HUB_OFFLINE": "1",
            "HOME": str(self.scratch),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "TIKTOKEN_CACHE_DIR": str(tokenizers),
        }
        return Contender("headroom", command, environment, WORKLOADS[:2], slow=True)

    def _far(self, port: int) -> Contender:
        serve = (str(Path(sys.executable).with_name("focusctx")), "serve", "--upstream", f"openai={self.upstream}")
        options = ("--listen", f"127.0.0.1:{port}", "--budget", "1000000", "--store", self._store("far"))
        return Contender("focusctx-far", (*serve, *options), workloads=WORKLOADS[:2])

    def _decides(self, name: str, port: int, size: Size) -> Contender:
        when = "at-once" if name == "focusctx-at-once" else "ahead"
        store = self._store(f"{name}-{size.name}")
        budget = size.higher if name == "focusctx-near" else size.budget
        command = (sys.executable, str(HERE / "ours.py"), str(port), self.upstream, store, str(budget))
        workloads = WORKLOADS[:2] if name in ("focusctx-near", "focusctx-after") else WORKLOADS[2:]
        shrinks = name != "focusctx-near"
        return Contender(
            name, (*command, str(size.keep_every), when), workloads=workloads, sizes=(size,), shrinks=shrinks
        )

    def _store(self, name: str) -> str:
        return f"sqlite:///{self.scratch / name}.db"

    def is_here(self, name: str) -> bool:
        return name not in DISTRIBUTIONS or (self.folder / name).is_dir()

    def version(self, name: str) -> str:
        if name not in DISTRIBUTIONS:
            return f"aiohttp {version('aiohttp')}" if name == "floor" else version("focusctx")
        code = f"from importlib.metadata import version; print(version('{DISTRIBUTIONS[name]}'))"
        python = self.folder / name / "bin/python"
        return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """`with Server(...)` ends the process and its children, whatever happens."""

    def __init__(self, command: Sequence[str], port: int, log: Path, environment: Mapping[str, str]) -> None:
        self.port = port
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **environment},
                cwd=log.parent,
                start_new_session=True,
            )

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(10)
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue

    def wait_until_it_listens(self) -> None:
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            if self.process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"{self.process.args!r} does not listen:\n{self.said()}")

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:]

    def cpu(self) -> float:
        """Seconds of CPU time so far, children included: those that run and those that ended."""
        total = 0.0
        for process in self._tree():
            try:
                # the clock of another process (clock_getcpuclockid): nanoseconds, where /proc has hundredths
                total += time.clock_gettime((~process << 3) | 2)
                ended = _stat(process)[13:15]
            except OSError:
                continue
            total += sum(map(int, ended)) / os.sysconf("SC_CLK_TCK")
        return total

    def memory(self) -> float:
        """MiB resident, children included."""
        total = 0
        for process in self._tree():
            status = Path(f"/proc/{process}/status").read_text()
            total += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)
        return total / 1024

    def _tree(self) -> list[int]:
        parents = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parents[int(entry.name)] = int(_stat(int(entry.name))[1])
                except OSError:
                    continue
        tree = [self.process.pid]
        for process in tree:
            tree += [child for child, parent in parents.items() if parent == process]
        return tree


def _stat(process: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on: the name before it may hold anything."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
