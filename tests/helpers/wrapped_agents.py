"""Real agents as `focusctx wrap` starts them: told nothing of the proxy but what wrap tells them.

`scripts/test-agents` installs them. Where an agent has tools, it does the task of `coding_agents`.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from helpers.coding_agents import CLAUDE_CODE, CODEX_AS_IT_COMES, GEMINI_CLI, MINI_SWE_AGENT, TASK, Agent
from helpers.provider import Call

KEY = "key-of-a-test"


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A command for wrap, and the environment that its user would have."""

    agent: Agent
    upstream: str
    """Name of the upstream that the scripted provider stands for."""
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that lie in its user's home."""

    def run(self, url: str, folder: Path) -> subprocess.CompletedProcess[str]:
        home, work = folder / "home", folder / "work"
        home.mkdir(parents=True)
        work.mkdir()
        for name, text in self.files.items():
            (home / name).parent.mkdir(parents=True)
            (home / name).write_text(text)
        options = ["--budget", "2500", "--upstream", f"{self.upstream}={url}", "--log", str(folder / "log")]
        command = [sys.executable, "-m", "focusctx", "wrap", *options, "--", str(self.agent.path), *self.arguments]
        kept = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": str(home)}
        variables = {**kept, **self.variables}
        return subprocess.run(
            command,
            cwd=work,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )


_QWEN_CODE = Agent(
    "Qwen Code",
    "chat_completions",
    "node_modules/.bin/qwen",
    "run_shell_command",
    lambda command: Call("run_shell_command", {"command": command, "is_background": False}),
    start=CLAUDE_CODE.start,
)
_OPENCODE = Agent(
    "OpenCode",
    "anthropic",
    "node_modules/.bin/opencode",
    "bash",
    lambda command: Call("bash", {"command": command, "description": "The next step"}),
    start=CLAUDE_CODE.start,
)

CLAUDE = Wrapped(
    CLAUDE_CODE,
    "anthropic",
    ("-p", TASK, "--output-format", "json", "--dangerously-skip-permissions"),
    {
        "ANTHROPIC_API_KEY": KEY,
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    },
)
CODEX = Wrapped(
    CODEX_AS_IT_COMES,
    "openai",
    ("exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK),
    {"OPENAI_API_KEY": KEY, "CODEX_API_KEY": KEY},
)
MINI = Wrapped(
    MINI_SWE_AGENT,
    "openai",
    ("-m", "openai/gpt-4.1", "-y", "-l", "0", "--exit-immediately", "-t", TASK, "-o", "/dev/null"),
    {
        "OPENAI_API_KEY": KEY,
        "MSWEA_CONFIGURED": "true",
        "MSWEA_SILENT_STARTUP": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
)
QWEN = Wrapped(
    _QWEN_CODE,
    "openai",
    ("-p", TASK, "--yolo", "--auth-type", "openai", "--model", "gpt-4.1"),
    {"OPENAI_API_KEY": KEY},
)
OPENCODE = Wrapped(
    _OPENCODE,
    "anthropic",
    ("run", "-m", "anthropic/claude-sonnet-4-5", TASK),
    {"ANTHROPIC_API_KEY": KEY, "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
)

GEMINI = Wrapped(
    GEMINI_CLI,
    "gemini",
    ("-p", TASK, "--yolo", "--skip-trust"),
    {"GEMINI_API_KEY": KEY},
    # For root, wrap offers this as a default; everybody else has to choose it.
    {".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
)
_AIDER = Agent("aider", "chat_completions", "aider/bin/aider", "", lambda _: Call("", {}), CLAUDE_CODE.start)
AIDER = Wrapped(
    _AIDER,
    "openai",
    (
        *("--model", "openai/gpt-4.1", "--message", TASK, "--yes-always", "--no-git", "--no-show-model-warnings"),
        *("--no-check-update", "--analytics-disable", "--map-tokens", "0", "--no-show-release-notes"),
    ),
    {"OPENAI_API_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
)
