"""`focusctx wrap` with the real agents: each finds the proxy by what wrap tells it, and does its task."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from focusctx import Focus
from helpers.coding_agents import CLAUDE_CODE, FINAL, INSTALLED, STEPS
from helpers.pages import ROOT
from helpers.provider import Provider, Received, Say
from helpers.proxied import events, proxied
from helpers.wrapped_agents import AIDER, CLAUDE, CODEX, GEMINI, KEY, MINI, OPENCODE, QWEN, Wrapped

pytestmark = pytest.mark.agents

DONE = "".join(f"{step}\n" for step in range(1, STEPS + 1))
SAVED = re.compile(r"^focusctx: (\d+) requests, (\d+) events: .* saved, (\d+)%\)$", re.MULTILINE)
SDK = INSTALLED / "claude-sdk" / "bin" / "python"
EMPTY_HOME = {"DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1"}


def need(path: Path, name: str) -> None:
    if not path.exists():
        pytest.skip(f"{name} is not installed: scripts/test-agents installs it")


@pytest.mark.parametrize(
    "wrapped", [CLAUDE, CODEX, GEMINI, MINI, QWEN, OPENCODE], ids=lambda wrapped: wrapped.agent.name
)
def test_an_agent_does_its_task_with_a_smaller_history(wrapped: Wrapped, tmp_path: Path) -> None:
    need(wrapped.agent.path, wrapped.agent.name)
    with Provider(wrapped.agent.model) as provider:  # which takes WebSockets, where wrap does not refuse them
        ended = wrapped.run(provider.url, tmp_path)
        assert ended.returncode == 0, ended.stderr[-3000:]
        refused = [received for received in provider.refused if wrapped is not GEMINI or wrapped.agent.works(received)]
        assert refused == [], "only Gemini CLI's question whether it is in a loop may be"
        assert {received.method for received in provider.received} == {"POST"}
        assert all(any(KEY in value for value in received.headers.values()) for received in provider.received)
    assert (tmp_path / "work" / "done.txt").read_text() == wrapped.agent.outcome.done
    assert FINAL in ended.stdout
    assert "focusctx:" not in ended.stdout
    found = SAVED.search(ended.stderr)
    assert found is not None, ended.stderr[-3000:]
    requests, made, share = map(int, found.groups())
    assert requests > wrapped.agent.steps
    assert made > 1
    assert share > 20


def test_aider_is_told_of_the_proxy(tmp_path: Path) -> None:
    need(AIDER.agent.path, AIDER.agent.name)

    def say(_received: Received) -> Say:
        return Say(FINAL)

    with Provider(say) as provider:
        ended = AIDER.run(provider.url, tmp_path)
        assert [received.path for received in provider.received] == ["/v1/chat/completions"]
    assert ended.returncode == 0
    assert FINAL in ended.stdout
    assert "focusctx: 1 request, nothing saved: no history was larger" in ended.stderr


def sdk_program(folder: Path) -> Path:
    """Write down the program on the page about agents, which `test_docs` could not run: its block says `py`."""
    (code,) = re.findall(r"^```py\n(.*?)^```", (ROOT / "docs" / "agents.md").read_text(), re.DOTALL | re.MULTILINE)
    (folder / "agent.py").write_text(code)
    for name in ("home", "work"):
        (folder / name).mkdir()
    return folder / "agent.py"


def run_sdk(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    given = {**kept, **EMPTY_HOME, "HOME": str(folder / "home"), "ANTHROPIC_API_KEY": KEY, **variables}
    return subprocess.run(
        command, cwd=folder / "work", env=given, capture_output=True, text=True, timeout=240, check=False
    )


def test_the_claude_agent_sdk_through_a_proxy(tmp_path: Path) -> None:
    need(SDK, "claude-agent-sdk")
    program = sdk_program(tmp_path)
    focus = Focus("offline", budget=2500)
    with Provider(CLAUDE_CODE.model) as provider, proxied(focus, provider.url) as (proxy, url):
        ended = run_sdk([str(SDK), str(program)], tmp_path, FOCUSCTX_URL=url)
        assert ended.returncode == 0, ended.stderr[-3000:]
        assert provider.rejected == []
        assert len(events(proxy)) > 1
    assert ended.stdout == f"{FINAL}\n"
    assert (tmp_path / "work" / "done.txt").read_text() == DONE


def test_the_claude_agent_sdk_under_wrap(tmp_path: Path) -> None:
    need(SDK, "claude-agent-sdk")
    program = sdk_program(tmp_path)
    code = program.read_text().replace('env={"ANTHROPIC_BASE_URL": PROXY}, ', "")
    assert "PROXY}" not in code
    program.write_text(code)
    with Provider(CLAUDE_CODE.model) as provider:
        wrap = [sys.executable, "-m", "focusctx", "wrap", "--budget", "2500", "--upstream", f"anthropic={provider.url}"]
        ended = run_sdk([*wrap, "--", str(SDK), str(program)], tmp_path)
        assert ended.returncode == 0, ended.stderr[-3000:]
        assert provider.rejected == []
    assert ended.stdout == f"{FINAL}\n"
    assert SAVED.search(ended.stderr)
