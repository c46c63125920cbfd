"""Who is measured, and how each is started: as its documentation says, with what would slow it down switched off.

LiteLLM runs in production mode with one worker, no database and no key check. headroom runs without its rate limit (60
requests a minute) and without its answer cache (it would spare itself the upstream); it finds the tokenizer files it
would fetch, and does without the model it would fetch.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from .plan import SIZES, WORKLOADS, Size

HERE = Path(__file__).resolve().parent
DISTRIBUTIONS = {"LiteLLM": ("litellm", "litellm"), "headroom": ("headroom", "headroom-ai")}
"""Its folder among the contenders, and its distribution."""
LITELLM_CONFIG = """\
model_list:
  - model_name: gpt-4.1
    litellm_params: {{model: openai/gpt-4.1, api_base: {upstream}/v1, api_key: sk-benchmark}}
litellm_settings: {{telemetry: false, request_timeout: 600}}
"""


@dataclass(frozen=True)
class Contender:
    """One server: what it is called in the tables, how it is started, and what it is measured on."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    workloads: tuple[str, ...] = WORKLOADS
    sizes: tuple[Size, ...] = SIZES
    slow: bool = False
    """Measured on fewer requests."""
    shrinks: bool = False
    """Whether less must go up than came."""


FAR, NEAR = "focusctx, far below the budget", "focusctx, near the budget"
AFTER, APPLIES, AT_ONCE = "focusctx, after a decision", "focusctx, applies a decision", "focusctx, drafts and applies"
NAMES = ("direct", "floor", "LiteLLM", "headroom", FAR, NEAR, AFTER, APPLIES, AT_ONCE)


@dataclass(frozen=True)
class Stage:
    """Where the contenders find each other and what they need."""

    upstream: str
    folder: Path
    """With the virtual environments of the others."""
    scratch: Path

    def contender(self, name: str, port: int, size: Size) -> Contender:
        """Those of focusctx that decide have a process for each size: their budgets differ."""
        if name == "floor":
            return Contender(name, (sys.executable, str(HERE / "floor.py"), str(port), self.upstream))
        if name == "LiteLLM":
            return self._litellm(port)
        if name == "headroom":
            return self._headroom(port)
        if name == FAR:
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
        return Contender("LiteLLM", (*command, "--host", "127.0.0.1"), environment, WORKLOADS[:2], slow=True)

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
        return Contender(FAR, (*serve, *options), workloads=WORKLOADS[:2])

    def _decides(self, name: str, port: int, size: Size) -> Contender:
        when = "at-once" if name == AT_ONCE else "ahead"
        store = self._store(f"{NAMES.index(name)}-{size.name}")
        budget = size.higher if name == NEAR else size.budget
        numbers = (str(budget), str(size.keep_every), when)
        command = (sys.executable, str(HERE / "ours.py"), str(port), self.upstream, store, *numbers)
        workloads = WORKLOADS[2:] if name in (APPLIES, AT_ONCE) else WORKLOADS[:2]
        return Contender(name, command, workloads=workloads, sizes=(size,), shrinks=name != NEAR)

    def _store(self, name: str) -> str:
        return f"sqlite:///{self.scratch / name}.db"

    def is_here(self, name: str) -> bool:
        return name not in DISTRIBUTIONS or (self.folder / DISTRIBUTIONS[name][0]).is_dir()

    def version(self, name: str) -> str:
        if name not in DISTRIBUTIONS:
            return version("aiohttp" if name == "floor" else "focusctx")
        folder, distribution = DISTRIBUTIONS[name]
        code = f"from importlib.metadata import version; print(version('{distribution}'))"
        python = self.folder / folder / "bin/python"
        return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
